"""What every test may use: the import path, the tiers, `--bless`, and fixtures for NVIDIA's tools.

The quick tier is everything unmarked. `@pytest.mark.full` is a heavy matrix (run with `-m "full or not full"`),
`@pytest.mark.gpu` needs a GPU and is skipped without one.
"""

from __future__ import annotations

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Without -m the quick tier runs; naming a test by its id runs it whatever its tier.
    if config.option.markexpr or any("::" in arg for arg in config.args):
        return
    quick = [item for item in items if not item.get_closest_marker("full")]
    if len(quick) != len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full")])
        items[:] = quick


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
