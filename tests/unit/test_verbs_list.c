/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of devices: what they name, what is wrong with them, and what they name in vain. */
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/port_table.h"
#include "transport/providers/verbs/select.h"

static void lists_match(void)
{
    static const struct {
        const char *list, *device;
        unsigned port;
        int want;
    } cases[] = {
        {"", "mlx5_0", 1, 0},          {"mlx5", "mlx5_0", 1, 0},
        {"mlx5", "rxe0", 1, -1},       {"rxe,mlx5", "mlx5_1", 2, 1},
        {"mlx5_1", "mlx5_10", 1, 0},   {"=mlx5_1", "mlx5_10", 1, -1},
        {"=mlx5_1", "mlx5_1", 1, 0},   {"=mlx5_1:2", "mlx5_1", 1, -1},
        {"=mlx5_1:2", "mlx5_1", 2, 0}, {"mlx5_0:1,mlx5_0:2", "mlx5_0", 2, 1},
        {"^mlx5_0", "mlx5_0", 1, -1},  {"^mlx5_0", "rxe0", 1, 0},
        {"^mlx5_0:2", "mlx5_0", 1, 0}, {"^mlx5_0:2", "mlx5_0", 2, -1},
        {"^=mlx5_1", "mlx5_10", 1, 0}, {"^=mlx5_1", "mlx5_1", 1, -1},
        {"mlx5_0:x", "mlx5_0", 1, -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int got = wring_verbs_match(cases[i].list, cases[i].device, cases[i].port);
        CHECK(got == cases[i].want, "%s, %s:%u: %d, not %d", cases[i].list, cases[i].device,
              cases[i].port, got, cases[i].want);
    }
}

static void malformed_lists_are_told(void)
{
    static const char *const good[] = {"", "a", "=a", "^a:1", "a,b:255", "^=a", "a:1, b"};
    static const char *const bad[] = {"^",    "=",
                                      "^=",   ",",
                                      "a,,b", ":1",
                                      "a:",   "a:0",
                                      "a:-1", "a:256",
                                      "a:1x", "a: 1",
                                      "a,:",  "a:1:2",
                                      "a:b",  "a,",
                                      ",a",   "^a,^b",
                                      "a,=b", "a b",
                                      "a:+1", "a:99999999999999999999"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(wring_verbs_list_fault(good[i]) == NULL, "%s: %s", good[i],
              wring_verbs_list_fault(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(wring_verbs_list_fault(bad[i]) != NULL, "'%s' is taken", bad[i]);
}

static void names_without_a_port_are_found(void)
{
    static const struct {
        const char *list, *want;
    } cases[] = {
        {"", ""},
        {"a", ""},
        {"=a,b:1", ""},
        {"c", "c"},
        {"a,=b", "=b"},
        {"a:3", "a:3"},
        {"c:1,a,d,b:2", "c:1, d, b:2"},
        {"^c", ""},
        {"^=a,c", ""},
        {"=aa,b", "aa"},
    };
    char text[64], small[6];
    clear();
    add_roce("a", 1, NULL);
    add_roce("b", 1, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool any = wring_verbs_unmatched(cases[i].list, &table, text, sizeof(text));
        CHECK(any == (text[0] != '\0') && strcmp(text, cases[i].want) == 0, "%s: '%s', not '%s'",
              cases[i].list, text, cases[i].want);
    }
    CHECK(wring_verbs_unmatched("long,names", &table, small, sizeof(small)) &&
              strcmp(small, "long,") == 0,
          "'%s'", small);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"lists_match", lists_match},
        {"malformed_lists_are_told", malformed_lists_are_told},
        {"names_without_a_port_are_found", names_without_a_port_are_found},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
