/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/collective/matrix.h"
#include "tests/lib/test.h"
#include <stdio.h>
#include <stdlib.h>
static void smoke(void)
{
    static const char *codecs[] = {"none", "bf16", "int8:block=64", "onebit:block=64+ef",
                                   "topk:ratio=0.1:block=256+ef"};
    static const char *provs[] = {"tcp", "shm", "auto"};
    for (int p = 0; p < 3; p++)
        for (unsigned r = 1; r <= 4; r++)
            for (int c = 0; c < 5; c++)
                for (int s = 0; s <= 2; s++) {
                    struct wring_matrix_case m = {.ranks = r,
                                                  .elems = 100001,
                                                  .codec = codecs[c],
                                                  .scheme = s,
                                                  .op = WRING_AVG,
                                                  .steps = 5,
                                                  .provider = provs[p],
                                                  .chunk = "16k",
                                                  .cpu = "best",
                                                  .executor = "inline",
                                                  .progress = "thread"};
                    float *out = calloc(m.elems, 4);
                    char t[256];
                    fprintf(stderr, "%s\n", wring_matrix_text(&m, t, 256));
                    wring_matrix_run(&m, out);
                    free(out);
                }
}
int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"smoke", smoke}, {0}};
    return wring_test_main(argc, argv, cases);
}
