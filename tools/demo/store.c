/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/demo/task.h"

json_t *demo_store_key(const struct demo_results *results, const struct demo_config *config,
                       double rate, uint64_t seed)
{
    const struct demo_options *o = results->options;

    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:f, s:I, s:s}", "version",
                     WRING_VERSION, "task", o->task->name, "optimizer", o->optimizer_text, "codec",
                     config->codec, "scheme", (int)config->scheme, "ranks", (json_int_t)o->ranks,
                     "steps", (json_int_t)o->steps, "batch", (json_int_t)o->batch, "hidden",
                     (json_int_t)o->hidden, "rate", rate, "seed", (json_int_t)seed, "data",
                     results->data);
}

static bool complain(const char *path, const char *what)
{
    fprintf(stderr, "wring demo: %s: %s\n", path, what);
    return false;
}

static bool is_number_or_null(const json_t *value)
{
    return json_is_number(value) || json_is_null(value);
}

/** Whether a line has what every release wrote, of its type. */
static bool is_training(const json_t *line)
{
    const json_t *losses = json_object_get(line, "losses");
    size_t i;
    const json_t *loss;

    if (!json_is_object(json_object_get(line, "key")) || !json_is_array(losses) ||
        !json_is_number(json_object_get(line, "wire_bytes")) ||
        !json_is_string(json_object_get(line, "hash")))
        return false;
    json_array_foreach(losses, i, loss) if (!is_number_or_null(loss)) return false;
    return true;
}

#define BEGIN "{\"key\":" /* of each line */

/** The end of a file that a stopped run left, and nobody else's. */
static bool cut_off(const char *path, const char *text, off_t at)
{
    if (strncmp(text, BEGIN, strlen(BEGIN)) != 0 || truncate(path, at) != 0)
        return false;
    fprintf(stderr,
            "wring demo: %s: its last line was cut short when a run was stopped, and is removed\n",
            path);
    return true;
}

/** @param text  [bytes], of which there is one at least
 *  @param at    where the line begins in the file */
static bool take_line(struct demo_store *store, const char *text, size_t bytes, unsigned line,
                      off_t at)
{
    json_error_t error;
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    bool well = is_training(object);
    char what[96];

    store->ended = text[bytes - 1] == '\n';
    if (well) {
        json_array_append(store->lines, object);
    } else if (object == NULL && !store->ended && cut_off(store->path, text, at)) {
        well = store->ended = true;
    } else {
        snprintf(what, sizeof(what),
                 "line %u is no finished training: remove it, or name another file", line);
        complain(store->path, what);
    }
    json_decref(object);
    return well;
}

static bool read_lines(struct demo_store *store, FILE *file)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t bytes;
    off_t at = 0;
    bool well = true;

    for (unsigned line = 1; well && (bytes = getline(&text, &room, file)) > 0; line++) {
        well = take_line(store, text, (size_t)bytes, line, at);
        at += bytes;
    }
    if (well && ferror(file))
        well = complain(store->path, strerror(errno));
    free(text);
    return well;
}

bool demo_store_open(struct demo_store *store, const char *path)
{
    struct stat there;

    *store = (struct demo_store){.path = path, .lines = json_array(), .ended = true};
    if (store->lines == NULL) {
        fprintf(stderr, "wring demo: out of memory\n");
        return false;
    }
    if (path[0] == '\0')
        return true;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return complain(path, "trainings are kept in a regular file, which this is not");
    FILE *file = fopen(path, "re");
    if (file == NULL && errno == ENOENT)
        return true;
    if (file == NULL)
        return complain(path, strerror(errno));
    bool well = read_lines(store, file);
    fclose(file);
    return well;
}

void demo_store_close(struct demo_store *store)
{
    json_decref(store->lines);
    *store = (struct demo_store){0};
}

/** A loss that is null was not finite. */
static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/** What an earlier release did not keep is no number. */
static bool take_training(const json_t *line, struct demo_training *out)
{
    const json_t *losses = json_object_get(line, "losses");
    const char *hash = json_string_value(json_object_get(line, "hash"));

    if (json_array_size(losses) != DEMO_EVALS + 1 || hash == NULL)
        return false;
    for (size_t i = 0; i <= DEMO_EVALS; i++)
        out->losses[i] = number_of(json_array_get(losses, i));
    const json_t *last = json_object_get(line, "last_loss");
    out->last_loss = last != NULL ? number_of(last) : out->losses[DEMO_EVALS];
    out->wire_bytes = json_number_value(json_object_get(line, "wire_bytes"));
    out->late_wire_bytes = json_number_value(json_object_get(line, "late_wire_bytes"));
    out->coded_bytes = number_of(json_object_get(line, "coded_bytes"));
    out->late_coded_bytes = number_of(json_object_get(line, "late_coded_bytes"));
    out->hash = strtoull(hash, NULL, 16);
    return true;
}

#define HASH_BYTES 24 /* of text */

static void print_hash(char *text, uint64_t hash)
{
    snprintf(text, HASH_BYTES, "%016llx", (unsigned long long)hash);
}

bool demo_store_find(const struct demo_store *store, json_t *key, uint64_t data_hash,
                     struct demo_training *out)
{
    char hash[HASH_BYTES];
    size_t i;
    json_t *line;

    print_hash(hash, data_hash);
    json_array_foreach(store->lines, i, line)
    {
        const char *of_line = json_string_value(json_object_get(line, "data_hash"));
        if (json_equal(json_object_get(line, "key"), key) &&
            (of_line == NULL || strcmp(of_line, hash) == 0))
            return take_training(line, out);
    }
    return false;
}

static json_t *line_of(json_t *key, uint64_t data_hash, const struct demo_training *training)
{
    json_t *losses = json_array();
    char hash[HASH_BYTES], of_data[HASH_BYTES];

    for (int i = 0; i <= DEMO_EVALS; i++)
        json_array_append_new(losses, isfinite(training->losses[i]) ? json_real(training->losses[i])
                                                                    : json_null());
    print_hash(hash, training->hash);
    print_hash(of_data, data_hash);
    return json_pack("{s:O, s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:s}", "key", key, "data_hash",
                     of_data, "losses", losses, "last_loss",
                     isfinite(training->last_loss) ? json_real(training->last_loss) : json_null(),
                     "wire_bytes", training->wire_bytes, "late_wire_bytes",
                     training->late_wire_bytes, "coded_bytes", training->coded_bytes,
                     "late_coded_bytes", training->late_coded_bytes, "hash", hash);
}

/** @return false with errno, after which the file may end with a part of the line */
static bool append_line(const struct demo_store *store, const json_t *line)
{
    FILE *file = fopen(store->path, "ae");

    if (file == NULL)
        return false;
    bool well = (store->ended || fputc('\n', file) != EOF) &&
                json_dumpf(line, file, JSON_COMPACT) == 0 && fputc('\n', file) != EOF;
    int why = errno;
    if (fclose(file) != 0)
        return false;
    errno = why;
    return well;
}

/** @return false with a line on standard error */
static bool save_line(struct demo_store *store, const json_t *line)
{
    struct stat before;
    bool was_there = stat(store->path, &before) == 0;

    if (append_line(store, line)) {
        store->ended = true;
        return true;
    }
    complain(store->path, strerror(errno));
    if (truncate(store->path, was_there ? before.st_size : 0) != 0 && errno != ENOENT)
        complain(store->path, strerror(errno));
    return false;
}

bool demo_store_add(struct demo_store *store, json_t *key, uint64_t data_hash,
                    const struct demo_training *training)
{
    json_t *line = line_of(key, data_hash, training);

    if (line == NULL) {
        fprintf(stderr, "wring demo: out of memory\n");
        return false;
    }
    json_array_append(store->lines, line);
    bool well = store->path[0] == '\0' || save_line(store, line);
    json_decref(line);
    return well;
}
