/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/output.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "tools/commands.h"

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

static void measure_columns(const struct wring_table *table, size_t *widths)
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

static void print_unwrapped(const struct wring_table *table, FILE *file)
{
    size_t widths[WRING_TABLE_COLUMNS_MAX];
    const char *texts[WRING_TABLE_COLUMNS_MAX];

    measure_columns(table, widths);
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
    print_unwrapped(table, file);
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

/* ---- output ---- */

/** Has its reader gone? @param fd  a pipe's or socket's end; others have none */
static bool output_is_unread(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

int wring_output_failed(void)
{
    return output_is_unread(STDOUT_FILENO) ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
}

/** Called at exit, since not only main() ends the process: argp does, after --help. */
static void check_standard_output(void)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed |= fflush(stdout) != 0;
    if (!failed || output_is_unread(STDOUT_FILENO))
        return;
    if (errno == 0) { /* it failed earlier: once more, for the reason */
        clearerr(stdout);
        putchar('\n');
        fflush(stdout);
    }
    wring_fail("wring", "standard output cannot be written: %s", strerror(errno));
    _exit(WRING_EXIT_FAILURE);
}

void wring_output_init(void)
{
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, NULL);
    atexit(check_standard_output);
}

/** Is it the file of our standard output or error, as with -o /dev/stdout? */
static bool is_printed_to(const struct stat *there)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat here;
        if (fstat(fd, &here) == 0 && here.st_dev == there->st_dev && here.st_ino == there->st_ino)
            return true;
    }
    return false;
}

/** Can a draft be made beside it? */
static bool has_room_beside(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    return access(dirname(folder), W_OK) == 0;
}

/** Is it something that a draft must not replace? A device, a pipe, a file that is printed to, that
 *  another user owns, that has several names, or whose folder we may not write to. */
static bool is_written_through(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 &&
           (!S_ISREG(there.st_mode) || is_printed_to(&there) || there.st_uid != geteuid() ||
            there.st_nlink > 1 || !has_room_beside(path));
}

static mode_t mode_of(const char *path)
{
    struct stat there;
    if (stat(path, &there) == 0)
        return there.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static bool write_through(const char *path, bool (*write)(FILE *file, void *arg), void *arg)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    bool well = write(file, arg) && ferror(file) == 0;
    int why = errno;
    if (fclose(file) != 0)
        return false;
    errno = why;
    return well;
}

static bool write_draft(const char *path, bool (*write)(FILE *file, void *arg), void *arg)
{
    struct wring_atomic_file draft;
    if (!wring_atomic_file_open(&draft, path, mode_of(path)))
        return false;
    bool well = write(draft.file, arg) && ferror(draft.file) == 0;
    int why = errno;
    bool closed = wring_atomic_file_close(&draft, path, well);
    if (!well)
        errno = why;
    return closed;
}

static int fail_to_write(const char *command, const char *path, int why)
{
    return wring_fail(command, "%s: cannot be written%s%s", path, why != 0 ? ": " : "",
                      why != 0 ? strerror(why) : "");
}

/** What a draft of it would stand beside. @param room  [PATH_MAX] a link stays one */
static const char *find_target(const char *path, char *room)
{
    const char *target = realpath(path, room) != NULL ? room : path;

    errno = 0;
    return target;
}

int wring_output_file(const char *command, const char *path, bool (*write)(FILE *file, void *arg),
                      void *arg)
{
    char target[PATH_MAX];

    errno = 0;
    if (is_written_through(path) ? write_through(path, write, arg)
                                 : write_draft(find_target(path, target), write, arg))
        return WRING_EXIT_OK;
    return fail_to_write(command, path, errno);
}

/** Of something that is there. */
static bool is_open_to_writing(const char *path)
{
    struct stat there;

    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
        return false;
    }
    return access(path, W_OK) == 0;
}

static bool try_draft(const char *path)
{
    struct wring_atomic_file draft;

    if (!wring_atomic_file_open(&draft, path, mode_of(path)))
        return false;
    wring_atomic_file_close(&draft, path, false);
    return true;
}

int wring_output_check(const char *command, const char *path)
{
    char target[PATH_MAX];

    errno = 0;
    if (is_written_through(path) ? is_open_to_writing(path) : try_draft(find_target(path, target)))
        return WRING_EXIT_OK;
    return fail_to_write(command, path, errno);
}
