/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

/** A whole number and what follows it. */
static bool parse_whole(const char *text, uint64_t *value, const char **rest)
{
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *rest = end;
    return errno == 0;
}

bool wring_value_count(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t value;
    const char *rest;

    if (!parse_whole(text, &value, &rest) || *rest != '\0' || value < min || value > max)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool wring_value_real(const char *text, double min, double max, double *out)
{
    const char *end;
    double value;

    if (!wring_number_parse(text, &value, &end) || *end != '\0' || !(value >= min && value <= max))
        return false;
    *out = value;
    return true;
}

bool wring_value_bytes(const char *text, uint64_t *out)
{
    static const char suffixes[] = "kmg";
    uint64_t value;
    const char *rest;
    unsigned shift = 0;

    if (!parse_whole(text, &value, &rest))
        return false;
    if (*rest != '\0') {
        const char *suffix = strchr(suffixes, tolower((unsigned char)*rest));
        if (suffix == NULL || rest[1] != '\0')
            return false;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if (value > UINT64_MAX >> shift)
        return false;
    *out = value << shift;
    return true;
}

const char *wring_value_show_bytes(uint64_t value, char *text, size_t bytes)
{
    static const char *const suffixes[] = {"", "k", "m", "g"};
    size_t power = 0;

    while (power < 3 && value > 0 && value % 1024 == 0) {
        value /= 1024;
        power++;
    }
    snprintf(text, bytes, "%" PRIu64 "%s", value, suffixes[power]);
    return text;
}

size_t wring_value_list(char *text, char **out, size_t max)
{
    struct wring_list_item item;
    size_t n = 0;

    if (*text == '\0')
        return 0;
    for (const char *rest = text; wring_list_next(&rest, &item);) {
        if (n == max)
            return SIZE_MAX;
        out[n] = text + (item.text - text);
        out[n++][item.length] = '\0'; /* its comma, or a space before that: rest is behind */
    }
    return n;
}

size_t wring_value_option_list(const char *option, char *text, char **out, size_t max,
                               const struct argp_state *state)
{
    if (*text != '\0' && wring_list_has_empty(text))
        argp_error(state, "%s %s: nothing stands before or after a comma", option, text);
    return wring_value_list(text, out, max);
}
