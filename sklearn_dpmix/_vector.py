"""An exponential that LLVM vectorises; the one of the C library is a call, and a loop that calls stays scalar."""

import math

import numba
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 leading bits of log(2): its product with an exponent is exact
_LN2_LOW = 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which is then in the low bits
# (exp(r) - 1 - r) / r^2 on |r| <= log(2) / 2, minimax for the relative error of exp (1.1e-17), lowest power first.
_C2, _C3, _C4, _C5 = 0.5000000000000011, 0.1666666666666641, 0.041666666666529725, 0.008333333333494976
_C6, _C7, _C8 = 0.0013888888943759965, 0.00019841269505773776, 2.480149294963387e-05
_C9, _C10, _C11 = 2.7557586803895326e-06, 2.76303062502936e-07, 2.5000018833187374e-08


@intrinsic
def _fma(typingctx, x, y, z):
    """``x * y + z``, fused where the processor has the instruction (LLVM's ``fmuladd``)."""
    double = ir.DoubleType()

    def codegen(context, builder, signature, args):
        fmuladd = ir.FunctionType(double, [double] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [double], fmuladd), args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def _power_of_two(typingctx, t):
    """``2.0 ** k`` for ``t = _ROUND + k``, by moving the low bits of `t`, plus the bias, into the exponent field."""
    double, integer = ir.DoubleType(), ir.IntType(64)

    def codegen(context, builder, signature, args):
        biased = builder.add(builder.bitcast(args[0], integer), integer(1023))
        return builder.bitcast(builder.shl(biased, integer(52)), double)

    return types.float64(types.float64), codegen


def _exp_bounded_python(x):
    return 0.0 if x < -708.0 else math.exp(x)


@njit(nogil=True)
def _exp_bounded_compiled(x):
    """Exponential of a number that is not (much) above zero, without a branch or a call.

    Reduction by multiples of log(2) in two parts (Cody and Waite, 1980) and a minimax polynomial of degree 11 in
    Estrin's order.

    Parameters
    ----------
    x : float
        At most 709; below -708, and at minus infinity, the result is zero, so no denormal ever appears.

    Returns
    -------
    float
        ``exp(x)``, relative error below 2e-16 (below 1 unit in the last place); NaN of NaN.
    """
    t = _fma(x, _LOG2_E, _ROUND)
    k = t - _ROUND
    r = _fma(k, -_LN2_LOW, _fma(k, -_LN2_HIGH, x))
    r2 = r * r
    r4 = r2 * r2
    low = _fma(_fma(_C5, r, _C4), r2, _fma(_C3, r, _C2))
    high = _fma(_fma(_C9, r, _C8), r2, _fma(_C7, r, _C6))
    high = _fma(_fma(_C11, r, _C10), r4, high)
    p = 1.0 + _fma(r2, _fma(high, r4, low), r)
    return 0.0 if x < -708.0 else p * _power_of_two(t)


exp_bounded = _exp_bounded_python if numba.config.DISABLE_JIT else _exp_bounded_compiled  # type: ignore[attr-defined]
