/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wring_number_vprint(char *text, size_t bytes, const char *format, va_list args)
{
    /* the C library has this one ready: nothing is made, and nothing to be freed */
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL), before = uselocale(plain);
    vsnprintf(text, bytes, format, args);
    plain = uselocale(before);
    if (plain != before && plain != LC_GLOBAL_LOCALE)
        freelocale(plain);
}

void wring_number_print(char *text, size_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    wring_number_vprint(text, bytes, format, args);
    va_end(args);
}

bool wring_number_parse(const char *text, double *number, const char **end)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
    char *after;

    if (plain == NULL)
        return false;
    errno = 0;
    double value = strtod_l(text, &after, plain);
    bool good = after != text && errno == 0 && value == value;
    freelocale(plain);
    if (!good)
        return false;
    *number = value;
    *end = after;
    return true;
}

static char lower_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool wring_number_is_unit(const char *text, const char *unit)
{
    while (*text != '\0' && lower_letter(*text) == lower_letter(*unit))
        text++, unit++;
    return *text == *unit;
}

/* ---- list ---- */

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
