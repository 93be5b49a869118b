/* SPDX-License-Identifier: Apache-2.0 */
/** Every codec keeps the contract, whatever it makes of its input. */
#include <string.h>

#include "tests/lib/codec_conform.h"
#include "tests/unit/codec_check.h"

/** What is not in the list is not tested. */
static void every_codec_is_listed(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        bool found = false;
        for (const struct codec_spec *row = codec_specs; row->spec != NULL; row++)
            found |= strcmp(row->spec, (*ops)->name) == 0;
        CHECK(found, "codec %s is not among the specs of this test", (*ops)->name);
    }
}

static void conformance(void)
{
    char why[400];

    for (const struct codec_spec *row = codec_specs; row->spec != NULL; row++)
        CHECK(codec_conform(row->own, row->spec, NULL, why, sizeof(why)), "%s", why);
}

/** Calls that fetch and store otherwise, as they go over more than caches hold: the bits stay. */
static void long_calls(void)
{
    static const uint64_t length[] = {((uint64_t)1 << 20) + 1235};
    static const struct codec_conform_limits limits = {
        .lengths = length, .n_lengths = 1, .seed = 1, .quick = true};
    static const char *const specs[] = {"none",
                                        "lossless",
                                        "lossless:block=32",
                                        "lossless:block=4096",
                                        "int8",
                                        "onebit",
                                        "onebit:block=32",
                                        "onebit:means=2",
                                        "onebit:block=65536",
                                        "randk+ef",
                                        "qsgd",
                                        "natural",
                                        "int8:range=minmax",
                                        "bf16:round=random",
                                        "fp8",
                                        "fp8:block=4096",
                                        "nvfp4"};
    char why[400];

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        CHECK(codec_conform(NULL, specs[i], &limits, why, sizeof(why)), "%s", why);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_codec_is_listed", every_codec_is_listed},
        {"conformance", conformance},
        {"long_calls", long_calls},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
