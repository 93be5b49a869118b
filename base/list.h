/* SPDX-License-Identifier: Apache-2.0 */
/** Lists as settings and options have them: "a, b,c". */
#ifndef WRING_BASE_LIST_H
#define WRING_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/** Borrowed from the list, not terminated. */
struct wring_list_item {
    const char *text;
    size_t length; /* 0: nothing stands between two commas */
};

/**
 * The item at *rest, without the spaces around it; *rest moves behind its comma, and is NULL after
 * the last item. "" is one empty item.
 * @return false at the end
 */
bool wring_list_next(const char **rest, struct wring_list_item *item);

bool wring_list_item_is(const struct wring_list_item *item, const char *word);

/** Is an item empty, as in "a,,b", "a," and ""? */
bool wring_list_has_empty(const char *list);

#endif
