"""`nriplugin completion`: a script by which a shell completes commands and options.

The script is made from the parsers, so it knows what they know: the commands, their
options, the words that an option accepts, and where a file belongs. It asks nobody
while a word is completed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.command_tree import Command, CommandOption, command_tree
from nriplugin.cli.printing import print_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_BASH = """\
# bash completion of nriplugin: source <(nriplugin completion bash)
_nriplugin() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= word at
  local options= words= values=
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${COMP_WORDS[at]}
    case "$path $word" in
@STEPS@
    esac
  done
  case "$path" in
@COMMANDS@
  esac
  case "$path $prev" in
@VALUES@
  esac
  if [[ $values == NONE ]]; then
    return
  elif [[ $values == FILES ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _nriplugin nriplugin
"""

_NO_VALUE = "NONE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = (
        "Prints a script that completes commands, options and their values. Load it "
        "with `source <(nriplugin completion bash)`, or write it to where your shell "
        "looks for such scripts."
    )
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh", "fish"),
        help="bash, zsh or fish",
    )


def main(args: argparse.Namespace) -> int:
    """Print the script."""
    commands = list(_all(command_tree()))
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](commands)
    for line in made.splitlines():
        print_line(line)
    return 0


def _all(command: Command) -> Iterator[Command]:
    yield command
    for one in command.below:
        yield from _all(one)


def _bash(commands: list[Command]) -> str:
    steps, offered, values = [], [], []
    for command in commands:
        path = " ".join(command.path)
        for below in command.below:
            target = " ".join(below.path)
            steps.append(f'    "{path} {below.name}") path="{target}" ;;')
        options = " ".join(one for option in command.options for one in option.names)
        words = " ".join([*(one.name for one in command.below), *command.words])
        offered.append(f'    "{path}") options="{options}"; words="{words}" ;;')
        for option in command.options:
            for name in option.names if option.value else ():
                given = " ".join(option.words) or "FILES"
                if not option.words and not option.is_file:
                    given = _NO_VALUE
                values.append(f'    "{path} {name}") values="{given}" ;;')
    return (
        _BASH.replace("@STEPS@", "\n".join(steps))
        .replace("@COMMANDS@", "\n".join(offered))
        .replace("@VALUES@", "\n".join(values))
    )


def _fish(commands: list[Command]) -> str:
    lines = [
        "# fish completion of nriplugin: nriplugin completion fish | source",
        "complete -c nriplugin -f",
    ]
    for command in commands:
        when = _fish_condition(command)
        for below in command.below:
            about = f"-a {below.name} -d {_quoted(below.summary)}"
            lines.append(f"complete -c nriplugin -n {when} {about}")
        if command.words:
            words = _quoted(" ".join(command.words))
            lines.append(f"complete -c nriplugin -n {when} -a {words}")
        elif command.takes_files:
            lines.append(f"complete -c nriplugin -n {when} -F")
        lines += [
            f"complete -c nriplugin -n {when} {_fish_option(option)}"
            for option in command.options
        ]
    return "\n".join(lines)


def _fish_condition(command: Command) -> str:
    tests = [f"__fish_seen_subcommand_from {name}" for name in command.path]
    names = " ".join(one.name for one in command.below)
    if names:
        tests.append(f"not __fish_seen_subcommand_from {names}")
    return _quoted("; and ".join(tests) or "true")


def _fish_option(option: CommandOption) -> str:
    parts = []
    for name in option.names:
        plain = name.lstrip("-")
        if name.startswith("--"):
            parts.append(f"-l {plain}")
        else:
            parts.append(f"-s {plain}" if len(plain) == 1 else f"-o {plain}")
    if option.words:
        parts.append(f"-x -a {_quoted(' '.join(option.words))}")
    elif option.value:
        parts.append("-r -F" if option.is_file else "-x")
    parts.append(f"-d {_quoted(option.summary)}")
    return " ".join(parts)


def _zsh(commands: list[Command]) -> str:
    functions = [_zsh_function(command) for command in commands]
    head = "#compdef nriplugin\n# zsh completion of nriplugin, as a file _nriplugin"
    call = (
        'if [ "$funcstack[1]" = "_nriplugin" ]; then\n  _nriplugin "$@"\nelse\n'
        "  compdef _nriplugin nriplugin\nfi"
    )
    return "\n\n".join([head, *functions, call])


def _zsh_function(command: Command) -> str:
    lines = [f"{_zsh_name(command)}() {{", "  local line state", "  _arguments -C \\"]
    for option in command.options:
        lines += [f"    {one} \\" for one in _zsh_option(option)]
    if not command.below:
        words = f"({' '.join(command.words)})" if command.words else "_files"
        lines += [f"    '*:word:{words}'", "}"]
        return "\n".join(lines)
    lines += ["    '1: :->command' \\", "    '*:: :->rest'", "  case $state in"]
    described = " ".join(
        _quoted(f"{one.name}:{one.summary.replace(':', '')}") for one in command.below
    )
    lines += [
        f"    command) local -a known=({described}); _describe command known ;;",
        "    rest) case $line[1] in",
    ]
    lines += [f"      {one.name}) {_zsh_name(one)} ;;" for one in command.below]
    lines += ["    esac ;;", "  esac", "}"]
    return "\n".join(lines)


def _zsh_name(command: Command) -> str:
    return "_".join(["_nriplugin", *command.path])


def _zsh_option(option: CommandOption) -> Iterator[str]:
    summary = option.summary.replace("[", "(").replace("]", ")").replace(":", "\\:")
    for name in option.names:
        value = ""
        if option.words:
            value = f":value:({' '.join(option.words)})"
        elif option.value:
            value = f":{option.value}:{'_files' if option.is_file else ''}"
        yield _quoted(f"*{name}[{summary}]{value}")


def _quoted(text: str) -> str:
    """Return a text in single quotes, as all three shells read it."""
    return "'" + text.replace("'", "'\\''") + "'"
