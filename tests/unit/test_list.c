/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of settings and options: items, spaces around commas, and nothing between two commas. */
#include "base/parse.h"

#include <string.h>

#include "tests/lib/test.h"

static void items_are_cut_at_commas(void)
{
    static const struct {
        const char *list, *items; /* each behind a '/' */
        bool empty;
    } cases[] = {
        {"a", "/a", false},
        {"a,bc", "/a/bc", false},
        {" a ,\tbc ", "/a/bc", false},
        {"", "/", true},
        {",", "//", true},
        {"a,", "/a/", true},
        {",a", "//a", true},
        {"a,,b", "/a//b", true},
        {"a, ,b", "/a//b", true},
        {"a b,c", "/a b/c", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64] = "";
        struct wring_list_item item;
        for (const char *rest = cases[i].list; wring_list_next(&rest, &item);) {
            strcat(text, "/");
            strncat(text, item.text, item.length);
        }
        CHECK(strcmp(text, cases[i].items) == 0, "'%s': %s", cases[i].list, text);
        CHECK(wring_list_has_empty(cases[i].list) == cases[i].empty, "'%s'", cases[i].list);
    }
}

static void items_are_whole_words(void)
{
    const char *rest = "tcp2,tcp";
    struct wring_list_item item;
    CHECK(wring_list_next(&rest, &item) && !wring_list_item_is(&item, "tcp"), "a beginning");
    CHECK(wring_list_next(&rest, &item) && wring_list_item_is(&item, "tcp"), "the word");
    CHECK(!wring_list_item_is(&item, "tcp2"), "more than it");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"items_are_cut_at_commas", items_are_cut_at_commas},
        {"items_are_whole_words", items_are_whole_words},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
