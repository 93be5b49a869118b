/* SPDX-License-Identifier: Apache-2.0 */
/** What commands write: standard output, which is to arrive, and files, whole or not at all. */
#ifndef WRING_TOOLS_OUTPUT_H
#define WRING_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Tables for people: columns as wide as they need to be, the last one wrapped so that a line
 * stays within 100 columns.
 */

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

/**
 * At the start of main(). When the process ends, standard output that could not be written (a full
 * disk) is said in one line, and the exit status is 1. A reader who has had enough (| head) ends
 * nobody, and is no failure: SIGPIPE is blocked, which the launcher undoes for ranks.
 */
void wring_output_init(void);

/** Standard output was not written; the line that says why comes as the process ends. @return the
 *  command's exit status, which is that of success where the reader has gone */
int wring_output_failed(void);

/**
 * Write a file with a function, which says whether all went well. What stood there before is
 * replaced once all of it is written, and else left alone; pipes and devices are written to.
 * @param command  before the line that says what failed
 * @return the command's exit status, said
 */
int wring_output_file(const char *command, const char *path, bool (*write)(FILE *file, void *arg),
                      void *arg);

/**
 * Before work that takes long: ask whether wring_output_file() could write the file, as far as that
 * can be told now. Nothing is left behind.
 * @return the command's exit status, said
 */
int wring_output_check(const char *command, const char *path);

#endif
