# fish completion of tileirdisasm; written by scripts/shell_pages.py
complete -c tileirdisasm -l color -d 'Colour in messages: auto, always, never'
complete -c tileirdisasm -n 'string match -q -- --color\'*\' (commandline -ct)' -f -a '--color=auto --color=always --color=never'
complete -c tileirdisasm -l diagnostic-codes -d 'Name the code of an error in a last note; a terminal always has it'
complete -c tileirdisasm -s g -d 'Alias for --print-debug-info'
complete -c tileirdisasm -l help -d 'Display available options'
complete -c tileirdisasm -l print-debug-info -d 'Annotate disassembly with debugging information, if present.'
complete -c tileirdisasm -l version -d 'Display the version of this program'
