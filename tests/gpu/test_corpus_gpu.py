"""The corpus on a real GPU, with explicit blocks (launch ABI simt), against the NumPy formulas. Needs cuda-python."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests.corpus.case import Case
from tests.corpus.check import PASS, SKIP, launch_case
from tests.corpus.registry import CASES
from tileiras.run import LaunchError
from tileiras.run.gpu import Device

pytestmark = pytest.mark.gpu

LIMIT_S = 60.0

try:
    ARCH = Device().arch
except LaunchError as refused:  # once, not for each of a thousand cases
    pytest.skip(str(refused), allow_module_level=True)


def reaches_through_pointers(case: Case) -> bool:
    """Lists of arrays hold host addresses, which mean nothing on a GPU."""
    from tests.corpus.case import ListOf

    return any(isinstance(parameter, ListOf) for parameter in case.signature)


@pytest.mark.parametrize("tensor_maps", ["none", "launcher"])
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if not reaches_through_pointers(case)])
def test_gpu(name: str, tensor_maps: str) -> None:
    outcome = launch_case(CASES[name], "gpu", ARCH, LIMIT_S, tensor_maps=tensor_maps)
    if outcome.word == SKIP:
        pytest.skip(outcome.reason)
    assert outcome.word == PASS, f"{outcome.word}: {outcome.reason}\n{outcome.detail}"
