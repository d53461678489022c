"""Ask the processor for memory before it is needed: what is read in no order it could foresee comes late otherwise."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """In compiled loops, ``prefetch(array, place)``: begin to bring ``array[place]`` into the cache; nothing waits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        # To be read, not written; to stay in all caches; data, not instructions.
        builder.call(instruction, [address, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, place), generate
