/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "transport/providers/fault.h"

static const struct {
    const char *name;
    double bits_per_s;
} units[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};

static bool parse_rate(const char *value, size_t length, double *bits_per_s)
{
    char text[32], *unit;
    if (length >= sizeof(text))
        return false;
    memcpy(text, value, length);
    text[length] = '\0';
    double number = strtod(text, &unit);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcasecmp(unit, units[i].name) == 0 && number > 0) {
            *bits_per_s = number * units[i].bits_per_s;
            return *bits_per_s >= 1e3 && *bits_per_s <= 1e13;
        }
    return false;
}

bool wring_fault_parse(const char *text, struct wring_fault_schedule *out, char *why, size_t bytes)
{
    struct wring_fault_schedule schedule = {0};
    double bits_per_s;

    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        if (strncmp(text, "rate=", 5) != 0) {
            snprintf(why, bytes, "'%.*s' is unknown: there is rate=1gbit", (int)length, text);
            return false;
        }
        if (!parse_rate(text + 5, length - 5, &bits_per_s)) {
            snprintf(why, bytes, "'%.*s': needs a rate from 1kbit to 10000gbit, such as 1gbit",
                     (int)length, text);
            return false;
        }
        schedule.ns_per_byte = 8e9 / bits_per_s;
        text += length + (text[length] == ',');
    }
    *out = schedule;
    return true;
}
