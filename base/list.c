/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

bool wring_list_next(const char **rest, struct wring_list_item *item)
{
    const char *at = *rest;
    if (at == NULL)
        return false;
    size_t length = strcspn(at, ",");
    *rest = at[length] == ',' ? at + length + 1 : NULL;
    while (length > 0 && is_space(at[0])) {
        at++;
        length--;
    }
    while (length > 0 && is_space(at[length - 1]))
        length--;
    *item = (struct wring_list_item){at, length};
    return true;
}

bool wring_list_item_is(const struct wring_list_item *item, const char *word)
{
    return strlen(word) == item->length && memcmp(word, item->text, item->length) == 0;
}

bool wring_list_has_empty(const char *list)
{
    struct wring_list_item item;
    while (wring_list_next(&list, &item))
        if (item.length == 0)
            return true;
    return false;
}
