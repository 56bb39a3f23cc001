# fish completion of tileiras-cutile; written by scripts/shell_pages.py
complete -c tileiras-cutile -s h -l help -d 'show this help message and exit'
complete -c tileiras-cutile -l target -x -a 'cpu reference emulator gpu' -d 'where kernels run'
complete -c tileiras-cutile -l gpu-name -l arch -r -d 'the GPU that the script sees (default: sm_90 for the emulator, else sm_100)'
complete -c tileiras-cutile -l map-cuda -d 'device=\'cuda\' of a PyTorch without CUDA means the CPU'
complete -c tileiras-cutile -l check -d 'report undefined behaviour, races and reads of unset memory'
complete -c tileiras-cutile -s m -r -d 'run a module, as python -m does'
