/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tables for people: columns as wide as they need to be, the last one wrapped so that a line
 * stays within 100 columns.
 */
#ifndef WRING_TOOLS_TABLE_H
#define WRING_TOOLS_TABLE_H

#include <stdio.h>

#define WRING_TABLE_WIDTH 100
#define WRING_TABLE_COLUMNS_MAX 16

enum wring_align {
    WRING_ALIGN_LEFT,
    WRING_ALIGN_RIGHT
};

struct wring_table_column {
    const char *title;
    enum wring_align align;
};

struct wring_table;

/** @param columns [n], borrowed; n is 1..WRING_TABLE_COLUMNS_MAX. NULL without memory. */
struct wring_table *wring_table_create(const struct wring_table_column *columns, size_t n);

/** The next cell, row by row. Without memory the cell stays empty. */
__attribute__((format(printf, 2, 3))) void wring_table_cell(struct wring_table *table,
                                                            const char *format, ...);

/** Print it, indented by two, and destroy it. NULL prints nothing. */
void wring_table_finish(struct wring_table *table, FILE *file);

#endif
