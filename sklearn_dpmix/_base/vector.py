"""Elementary functions that LLVM vectorises; those of the C library are calls, and a loop that calls stays scalar."""

import math

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from scipy.special import erfcx as _erfcx

from .compiled import shared

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


@shared
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


# --- logarithm -------------------------------------------------------------------------------------------------------

_LN2 = 0.6931471805599453
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # of √½
_EXPONENT_MASK = 0xFFF0000000000000


@intrinsic
def _mantissa(typingctx, x):
    """``m`` in [√½, √2) with ``x = m·2**k``."""
    double, integer = ir.DoubleType(), ir.IntType(64)

    def codegen(context, builder, signature, args):
        bits = builder.bitcast(args[0], integer)
        exponent = builder.and_(builder.sub(bits, integer(_SQRT_HALF_BITS)), integer(_EXPONENT_MASK))
        return builder.bitcast(builder.sub(bits, exponent), double)

    return types.float64(types.float64), codegen


@intrinsic
def _exponent(typingctx, x):
    """That ``k``, without a conversion from integers, which not every processor has for vectors."""
    double, integer = ir.DoubleType(), ir.IntType(64)

    def codegen(context, builder, signature, args):
        bits = builder.bitcast(args[0], integer)
        shifted = builder.sub(bits, integer(_SQRT_HALF_BITS - (1023 << 52)))
        number = builder.or_(builder.lshr(shifted, integer(52)), integer(0x4330000000000000))  # 2**52 + k + 1023
        return builder.fsub(builder.bitcast(number, double), double(4503599627370496.0 + 1023.0))

    return types.float64(types.float64), codegen


@shared
def _log_positive_compiled(x):
    """Logarithm of a positive normal number, without a branch or a call: relative error below 4e-16.

    log m = 2 artanh((m - 1)/(m + 1)) on [√½, √2), by its series.
    """
    m = _mantissa(x)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    t2 = t * t
    t4 = t2 * t2
    low = _fma(_fma(t, 1.0 / 9.0, 1.0 / 7.0), t2, _fma(t, 1.0 / 5.0, 1.0 / 3.0))
    high = _fma(_fma(t, 1.0 / 17.0, 1.0 / 15.0), t2, _fma(t, 1.0 / 13.0, 1.0 / 11.0))
    p = _fma(_fma(t4, 1.0 / 19.0, high), t4, low)
    return _fma(_exponent(x), _LN2, _fma(2.0 * s * t, p, 2.0 * s))


log_positive = math.log if numba.config.DISABLE_JIT else _log_positive_compiled  # type: ignore[attr-defined]


# --- scaled complementary error function -----------------------------------------------------------------------------


@shared
def _erfcx_positive_compiled(x):
    """exp(x²) erfc(x) for x >= 0, without a branch or a call: relative error below 2e-15; above 1e30 as there.

    A ratio of polynomials of degrees 9 and 10 with positive coefficients, found by least squares of its relative error
    (4.3e-16) at Chebyshev nodes in (x - 5/2)/(x + 5/2).  Even and odd powers are added up apart.
    """
    x = min(x, 1e30)
    x2 = x * x
    even = _fma(_fma(0.0015738492441650803, x2, 0.07936811980891388), x2, 0.8855307639474806)
    even = _fma(_fma(even, x2, 2.5335236038885793), x2, 0.9999999999999997)
    odd = _fma(_fma(8.743679233072198e-05, x2, 0.014002904190965696), x2, 0.31287557380548353)
    odd = _fma(_fma(odd, x2, 1.7980291032525006), x2, 2.267186584422787)
    above = _fma(odd, x, even)
    even = _fma(_fma(0.00015497767927741412, x2, 0.024896990296810542), x2, 0.566889777750902)
    even = _fma(_fma(_fma(even, x2, 3.451986511942276), x2, 5.365009258408441), x2, 1.0)
    odd = _fma(_fma(0.0027895751535650156, x2, 0.14207111716747395), x2, 1.6385057823386355)
    odd = _fma(_fma(odd, x2, 5.2084808081990985), x2, 3.3955657515182134)
    return above / _fma(odd, x, even)


def _erfcx_positive_python(x):
    return float(_erfcx(x))


erfcx_positive = _erfcx_positive_python if numba.config.DISABLE_JIT else _erfcx_positive_compiled  # type: ignore[attr-defined]
