/* SPDX-License-Identifier: Apache-2.0 */
/** A locale with a decimal comma, on machines that have none installed too. */
#ifndef WRING_TESTS_COMMA_LOCALE_H
#define WRING_TESTS_COMMA_LOCALE_H

#include <stdbool.h>

/** Make it the process's; one is written to a temporary folder where the system has none.
 *  @return false where that did not work either */
bool comma_locale_enter(void);

/** Back to the C locale; nothing stays in the file system. */
void comma_locale_leave(void);

#endif
