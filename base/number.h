/* SPDX-License-Identifier: Apache-2.0 */
/** Numbers as people write them, with a decimal point whatever the application's locale says. */
#ifndef WRING_BASE_NUMBER_H
#define WRING_BASE_NUMBER_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * From enter to leave printf and strtod of this thread are those of the C locale, whatever the
 * application has set. Allocates nothing. @return what leave needs
 */
locale_t wring_number_locale_enter(void);
void wring_number_locale_leave(locale_t before);

/**
 * The number at the start of a text, as strtod() reads it in the C locale.
 *
 * @param end  out, what follows it; borrowed from text
 * @return false, and nothing written, where there is none or a double cannot hold it (NaN too)
 *
 * Threads: safe, also against setlocale() in another one.
 */
bool wring_number_parse(const char *text, double *number, const char **end);

/** number / 10^digits in full, without zeros at the end. @param text out, [bytes] */
void wring_number_show_scaled(int64_t number, unsigned digits, char *text, size_t bytes);

#endif
