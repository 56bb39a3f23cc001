"""What every test may use: the import path, the tiers, `--bless`, and fixtures for NVIDIA's tools.

The quick tier is everything unmarked. `@pytest.mark.full` is a heavy matrix (run with `-m "full or not full"`); of the variations
of a test marked `@pytest.mark.sampled(n)` the quick tier runs one in n, the full tier all. `@pytest.mark.gpu` needs a GPU and is
skipped without one.
"""

from __future__ import annotations

import collections
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
for entry in (str(TESTS), str(REPOSITORY)):
    if entry not in sys.path:
        sys.path.insert(0, entry)


# Under nohup, and behind & in a script, these are ignored, and every program that a test starts would inherit that. A
# handler, unlike SIG_IGN, is not inherited; one that does nothing ignores the signal here as before.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)


# No test measures time: on a busy machine a draw may take seconds.
settings.register_profile("tileiras", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tileiras")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite the expected part of golden files; review the diff"
    )


def _is_quick(config: pytest.Config) -> bool:
    """Whether the quick tier is asked for: without -m it is, but naming a test by its id runs it whatever its tier."""
    return not config.option.markexpr and not any("::" in arg for arg in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    # The full tier's matrices have tens of thousands of variations: the quick tier does not even make them.
    if _is_quick(collector.config) and any(
        mark.name == "full" for mark in getattr(obj, "pytestmark", ()) if isinstance(mark, pytest.Mark)
    ):
        return []
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled:
            function = (item.path.as_posix(), getattr(item, "originalname", item.name))
            number, seen[function] = seen[function], seen[function] + 1
            if not _is_in_sample(number, *sampled.args):
                item.add_marker("full")
    if _is_quick(config):
        quick = [item for item in items if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full")])
        items[:] = quick


def _is_in_sample(number: int, of: int) -> bool:
    """Whether the quick tier runs the variation of that number: the first, and one in `of`, never in step with a parameter.

    Multiples of the golden ratio fall evenly between 0 and 1 without a period (Weyl), so that no target or type of an inner
    parameter is always the one, as it would be with every n-th.
    """
    return number * 0.6180339887498949 % 1 < 1 / of


@pytest.fixture(autouse=True)
def _needs_gpu(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("needs a GPU")


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be rewritten."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Tests never read or fill the user's compile cache: a stale entry there would decide a test.
    os.environ["TILEIRAS_CACHE_DIR"] = str(tmp_path_factory.mktemp("tileiras-cache"))


@pytest.fixture
def undivided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops stay one where some of their steps mask nothing (TileASUnmaskedSteps): for tests that look at the one loop."""
    from tileiras.compiler.passes.tileas import unmasked_steps

    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(unmasked_steps, "divisible", lambda loop: False)
