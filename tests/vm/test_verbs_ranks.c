/* SPDX-License-Identifier: Apache-2.0 */
/** Whole jobs on verbs whose ranks are threads: each collective, with memory of every kind in turn,
 *  which is sent as it lies where the device knows it and staged where not. */
#include "tests/collective/matrix.h"
#include "tests/lib/test.h"
#include "transport/providers/providers.h"

static const struct wring_matrix_case plain = {
    .ranks = 3,
    .elems = 9011,
    .op = WRING_AVG,
    .codec = "none",
    .steps = 3,
    .provider = "verbs",
    .chunk = "16k",
    .cpu = "best",
    .executor = "inline",
    .progress = "thread",
};

static void every_collective(void)
{
    for (int what = 0; what < WRING_MATRIX_WHATS; what++) {
        struct wring_matrix_case c = plain;
        c.what = (enum wring_matrix_what)what;
        c.memory = (enum wring_matrix_memory)((what + 1) % WRING_MATRIX_MEMORIES);
        c.dtype = what % 2 == 1 ? WRING_BF16 : WRING_F32;
        wring_matrix_run(&c);
    }
}

static void codecs(void)
{
    static const char *const specs[] = {"bf16", "int8:block=64", "onebit:block=128"};
    for (int what = 0; what < WRING_MATRIX_BROADCAST; what++) {
        struct wring_matrix_case c = plain;
        c.what = (enum wring_matrix_what)what;
        c.codec = specs[what % 3];
        c.memory = WRING_MATRIX_FOREIGN;
        wring_matrix_run(&c);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_collective", every_collective},
        {"codecs", codecs},
        {NULL, NULL},
    };
    char reason[256];
    if (wring_provider_verbs.probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("verbs: %s", reason);
    return wring_test_main(argc, argv, cases);
}
