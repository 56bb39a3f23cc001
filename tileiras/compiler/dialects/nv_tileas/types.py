"""Types of the nv_tileas dialect: pipelines, shared buffers and tensor-map descriptors."""

from __future__ import annotations

from tileiras.compiler.ir import types as T

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PipelineType = T._interned(
    "PipelineType", (), "Slots between producers and consumers.", lambda t: "async.pipeline"
)
PipelineType.DIALECT = "nv_tileas"
PIPELINE = PipelineType()

SharedType = T._interned("SharedType", (), "A buffer in shared memory.", lambda t: "shared")
SharedType.DIALECT = "nv_tileas"
SHARED = SharedType()

TensorMemoryType = T._interned(
    "TensorMemoryType",
    (),
    "Columns of tensor memory, and the mbarriers of what is on its way there.",
    lambda t: "tensor_memory",
)
TensorMemoryType.DIALECT = "nv_tileas"
TENSOR_MEMORY = TensorMemoryType()

TmaDescriptor = T._interned(
    "TmaDescriptor",
    ("elem", "box", "space"),
    "Descriptor of a tensor map: element type, box extents (outermost first), state space of the destination.",
    lambda t: (
        f"tma_descriptor<{'x'.join(map(str, t.box))}x{t.elem}{'' if t.space == 'shared' else ', ' + t.space}>"
    ),
)
TmaDescriptor.DIALECT = "nv_tileas"


def parse_pipeline(p: Any) -> Any:
    return PIPELINE


def parse_shared(p: Any) -> Any:
    return SHARED


def parse_tensor_memory(p: Any) -> Any:
    return TENSOR_MEMORY


def parse_tma_descriptor(p: Any) -> Any:
    """`<8x64xf16>`, `<8x64xf16, global>`."""
    p.expect("<")
    box = p.dims()
    elem = p.type()
    space = p.word("a state space") if p.accept(",") else "shared"
    p.expect(">")
    return TmaDescriptor(elem, box, space)


class TypeRef(T.Type):
    """A type by its place in the module's `nv_tileaa.type_table`."""

    __slots__ = ("index",)
    FIELDS = ("index",)
    DIALECT = "nv_tileas"
    made = False  # whether one exists: most processes never see one

    def __init__(self, index: int) -> None:
        self.index = index
        TypeRef.made = True

    def __str__(self) -> str:
        return f"type_ref<{self.index}>"


def parse_type_ref(p: Any) -> Any:
    p.expect("<")
    found = TypeRef(p.integer())
    p.expect(">")
    return found
