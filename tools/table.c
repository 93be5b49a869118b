/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define INDENT 2
#define GAP 2
#define NARROWEST 20 /* the last column wraps no tighter than that */

struct wring_table {
    const struct wring_table_column *columns;
    size_t n;
    char **cells; /* [n_cells], NULL where memory was lacking */
    size_t n_cells, room;
};

struct wring_table *wring_table_create(const struct wring_table_column *columns, size_t n)
{
    assert(n >= 1 && n <= WRING_TABLE_COLUMNS_MAX);
    struct wring_table *table = calloc(1, sizeof(*table));
    if (table != NULL) {
        table->columns = columns;
        table->n = n;
    }
    return table;
}

static char *format_text(const char *format, va_list args)
{
    char *text;
    return vasprintf(&text, format, args) >= 0 ? text : NULL;
}

void wring_table_cell(struct wring_table *table, const char *format, ...)
{
    va_list args;

    if (table == NULL)
        return;
    if (table->n_cells == table->room) {
        size_t room = table->room > 0 ? 2 * table->room : 64;
        char **cells = realloc(table->cells, room * sizeof(*cells));
        if (cells == NULL)
            return;
        table->cells = cells;
        table->room = room;
    }
    va_start(args, format);
    table->cells[table->n_cells++] = format_text(format, args);
    va_end(args);
}

static const char *cell_text(const struct wring_table *table, size_t row, size_t column)
{
    size_t i = row * table->n + column;
    return i < table->n_cells && table->cells[i] != NULL ? table->cells[i] : "";
}

static size_t rows_of(const struct wring_table *table)
{
    return (table->n_cells + table->n - 1) / table->n;
}

static void measure(const struct wring_table *table, size_t *widths)
{
    for (size_t column = 0; column < table->n; column++) {
        widths[column] = strlen(table->columns[column].title);
        for (size_t row = 0; row < rows_of(table); row++) {
            size_t width = strlen(cell_text(table, row, column));
            if (width > widths[column])
                widths[column] = width;
        }
    }
}

/** How much of the text goes on a line of that width: up to a space, or the whole word. */
static size_t line_length(const char *text, size_t width)
{
    size_t length = strlen(text);

    if (length <= width)
        return length;
    for (length = width; length > 0 && text[length] != ' '; length--)
        ;
    return length > 0 ? length : strcspn(text, " ");
}

static void print_wrapped(FILE *file, const char *text, size_t at)
{
    size_t width = at + NARROWEST < WRING_TABLE_WIDTH ? WRING_TABLE_WIDTH - at : NARROWEST;

    for (;;) {
        size_t length = line_length(text, width);
        fprintf(file, "%.*s\n", (int)length, text);
        text += length;
        while (*text == ' ')
            text++;
        if (*text == '\0')
            return;
        fprintf(file, "%*s", (int)at, "");
    }
}

static void print_row(FILE *file, const struct wring_table *table, const size_t *widths,
                      const char *const *texts)
{
    size_t at = INDENT;

    fprintf(file, "%*s", INDENT, "");
    for (size_t column = 0; column < table->n; column++) {
        int width = (int)widths[column];
        if (table->columns[column].align == WRING_ALIGN_RIGHT)
            fprintf(file, "%*s", width, texts[column]);
        else if (column + 1 < table->n)
            fprintf(file, "%-*s", width, texts[column]);
        else {
            print_wrapped(file, texts[column], at);
            return;
        }
        at += widths[column] + GAP;
        fprintf(file, "%s", column + 1 < table->n ? "  " : "\n");
    }
}

static void print(const struct wring_table *table, FILE *file)
{
    size_t widths[WRING_TABLE_COLUMNS_MAX];
    const char *texts[WRING_TABLE_COLUMNS_MAX];

    measure(table, widths);
    for (size_t column = 0; column < table->n; column++)
        texts[column] = table->columns[column].title;
    print_row(file, table, widths, texts);
    for (size_t row = 0; row < rows_of(table); row++) {
        for (size_t column = 0; column < table->n; column++)
            texts[column] = cell_text(table, row, column);
        print_row(file, table, widths, texts);
    }
}

void wring_table_finish(struct wring_table *table, FILE *file)
{
    if (table == NULL)
        return;
    print(table, file);
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}
