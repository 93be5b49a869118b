/* SPDX-License-Identifier: Apache-2.0 */
/** An executor around another one: all goes to the inner one, but for what a test puts between. */
#ifndef WRING_TESTS_WRAPPED_EXECUTOR_H
#define WRING_TESTS_WRAPPED_EXECUTOR_H

#include <wring/executor.h>

struct wrapped_executor { /* first member of a test's own */
    struct wring_executor base;
    struct wring_executor *inner; /* owned */
};

/** Every function of the inner one; a test copies the table and changes what it needs. */
extern const struct wring_executor_ops wrapped_executor_ops;

#endif
