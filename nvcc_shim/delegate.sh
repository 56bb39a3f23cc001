# The fast route of tileiras-nvcc: plain sh, read before any interpreter starts. A line that cannot hold Tile IR is
# handed to the real nvcc by exec, unchanged, in about the time that sh needs to start. Everything else (a Tile input,
# an options file, nvcc's own environment flags, an option of ours, a toolkit not seen before) falls through to Python.
# The answer "which nvcc" comes from routes.sh, which home.py writes; it names what must still be true of the machine.
TILEIRAS_NVCC_DEPTH=x$TILEIRAS_NVCC_DEPTH
export TILEIRAS_NVCC_DEPTH
shim_tile= shim_arch= shim_slow=$NVCC_PREPEND_FLAGS$NVCC_APPEND_FLAGS shim_skip=
case $TILEIRAS_NVCC_DEPTH in xxxxxxxxx*) shim_slow=1 ;; esac
for shim_word do
  [ -z "$shim_slow" ] || break
  if [ -n "$shim_skip" ]; then
    shim_skip=
    continue
  fi
  case $shim_word in
    --color|--color=*|-optf|-optf=*|--options-file|--options-file=*|-MQ|-MQ=*|--dependency-quoted-target-name*|--tileiras-compiler*|--tileiras-header*|--tileiras-launch-abi*|--tileiras-nvcc*|--tileiras-prefix*|--tileiras-version) shim_slow=1 ;;
    -enable-tile|--enable-tile|-tile-only|--tile-only|-simt-only|--simt-only|-tilebc|--tilebc|-tilefatbin|--tilefatbin|-tile-preview=*|--tile-preview=*|-Xtileiras=*|--tileiras-options=*) shim_tile=1 ;;
    -tilecubin|--tilecubin) shim_slow=1 ;; # nvcc may write nothing and say nothing: main.py looks
    -tile-preview|--tile-preview|-Xtileiras|--tileiras-options) shim_tile=1 shim_skip=1 ;;
    -o|--output-file|-MF|--dependency-output|-MT|--dependency-target-name|-x|--x|-odir|--output-directory|-keep-dir|--keep-dir|-time|--time|-ccbin|--compiler-bindir|-Xlinker|--linker-options|-Xcompiler|--compiler-options|-Xarchive|--archive-options|-include|--pre-include|-I|-isystem|-L|-D|-U|-l|-run-args|--run-args|-frandom-seed|--frandom-seed) shim_skip=1 ;;
    *sm_[89]*|*sm_1[0-9]*|*compute_[89]*|*compute_1[0-9]*|all|all-major|-arch=all*|--gpu-architecture=all*) shim_arch=1 ;;
    -*) ;;
    *.tileir|*.tilebc|*.tileirbc) shim_slow=1 ;;
    *.o|*.obj|*.a|*.lib|*.so|*.so.*|*.cubin|*.fatbin|*.ptx) ;;
    *)
      if [ -f "$shim_word" ] && [ -r "$shim_word" ]; then
        case $shim_word in
          *.cu|*.c|*.cc|*.cpp|*.cxx|*.i|*.ii)
            # Tile IR under a C++ name: the magic, or text that opens a module after line comments.
            while IFS= read -r shim_line || [ -n "$shim_line" ]; do
              case $shim_line in
                ''|//*) continue ;;
                'TileIR'*|*cuda_tile.*|module*|'#'*=*|' '*) shim_slow=1 ;;
              esac
              break
            done < "$shim_word" ;;
          *) shim_slow=1 ;;
        esac
      fi ;;
  esac
done
# Tile code for an architecture without it: nvcc drops it silently, main.py says so.
[ -n "$shim_tile" ] && [ -z "$shim_arch" ] && shim_slow=1
if [ -z "$shim_slow" ] && [ "${TILEIRAS_CACHE:-1}" = 1 ]; then
  shim_routes=${TILEIRAS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tileiras}/nvcc/routes.sh
  if [ -r "$shim_routes" ] && [ -O "$shim_routes" ]; then
    shim_key="$0|$TILEIRAS_NVCC|$TILEIRAS_TOOLKIT_ROOT|$CONDA_PREFIX|$CUDA_PATH|$CUDA_HOME|$PATH"
    shim_real= shim_home=
    . "$shim_routes"
    if [ -n "$shim_real" ]; then
      [ -z "$shim_tile" ] && exec "$shim_real" "$@"
      [ -n "$shim_home" ] && [ "$TILEIRAS_COMPILER" = nvidia ] && exec "$shim_real" "$@"
      [ -n "$shim_home" ] && exec "$shim_home" "$@"
    fi
  fi
fi
TILEIRAS_NVCC_SELF=$0
export TILEIRAS_NVCC_SELF
