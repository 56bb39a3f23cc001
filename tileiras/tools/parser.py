"""The parser of the commands that launch kernels: argparse, with pages and refusals as the other commands have them."""

from __future__ import annotations

import argparse

from tileiras import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from tileiras.diag import Refusal


class Parser(argparse.ArgumentParser):
    """`refusal` makes a row of what argparse says; --help and --version that cannot be written end with 2."""

    def __init__(self, refusal: Callable[[str], Refusal], **more: Any) -> None:
        super().__init__(add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter, **more)
        from tileiras.version import __version__

        self.refusal = refusal
        version = f"{self.prog} {__version__}\n"
        self.add_argument(
            "-h", "--help", action=_Page, page=self.format_help, help="show this help message and exit"
        )
        self.add_argument(
            "--version", action=_Page, page=lambda: version, help="show version number and exit"
        )
        self.add_argument("--color", metavar="=WHEN",
                          help="colour in messages: auto (on a terminal, unless NO_COLOR is set), always, never")  # fmt: skip
        self.add_argument(
            "--diagnostic-codes", action="store_true", help="name the code of an error in a last note"
        )

    def error(self, message: str) -> NoReturn:
        from tileiras.tools import diags

        raise SystemExit(terminal.refuse(self.refusal(diags.unread(message, self.format_help())), self.prog))


class _Page(argparse.Action):
    """An option that prints a page and ends the command."""

    def __init__(self, option_strings: list[str], dest: str, page: Callable[[], str], help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)
        self.page = page

    def __call__(self, *_: object) -> NoReturn:
        raise SystemExit(terminal.print_page(self.page()))
