# fish completion of tileiras-report; written by scripts/shell_pages.py
complete -c tileiras-report -s o -l output -r -d 'what to write'
complete -c tileiras-report -l json -d 'differences as JSON'
complete -c tileiras-report -l color -d 'colour in messages: auto, always, never'
complete -c tileiras-report -n 'string match -q -- --color\'*\' (commandline -ct)' -f -a '--color=auto --color=always --color=never'
complete -c tileiras-report -l diagnostic-codes -d 'name the code of an error in a last note; a terminal always has it'
complete -c tileiras-report -l version -d 'print the version of this program'
complete -c tileiras-report -l help -d 'print this text'
