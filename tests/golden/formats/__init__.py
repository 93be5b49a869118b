# SPDX-License-Identifier: Apache-2.0
"""The codecs of compress/FORMAT.md in plain Python: written from that page, not from the library.

    composition   what a spec is made of, and the code of a bucket: encode(), decode(), sum_codes()
    casts, signs, quantisers, small_floats, summable, sparse, low_rank, lossless
                  a class for each codec
    philox        random numbers
    binary32      arithmetic, and reading codes that may be malformed

A codec has `unit`, how many elements have a code of their own; encode_unit(v, phase, fed), which
returns the bytes of a unit; and decode_unit(code, n), which returns n elements and how many bytes
it took. Some have begin(v) or agree(parts), too: the round before a bucket's code, or a unit's.
"""
