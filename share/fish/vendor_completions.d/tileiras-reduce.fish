# fish completion of tileiras-reduce; written by scripts/shell_pages.py
complete -c tileiras-reduce -s o -l output -r -d 'what to write (default: INPUT with .reduced.tilebc for its ending); its text goes beside it, .tileir'
complete -c tileiras-reduce -s j -l jobs -r -d 'candidates to try at the same time (default: 1)'
complete -c tileiras-reduce -l timeout -r -d 'a run that takes longer is not interesting, and is ended (default: 60)'
complete -c tileiras-reduce -l quiet -d 'do not tell of progress'
complete -c tileiras-reduce -l color -d 'colour in messages: auto, always, never'
complete -c tileiras-reduce -n 'string match -q -- --color\'*\' (commandline -ct)' -f -a '--color=auto --color=always --color=never'
complete -c tileiras-reduce -l version -d 'print the version of this program'
complete -c tileiras-reduce -l help -d 'print this text'
