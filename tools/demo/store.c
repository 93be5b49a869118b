/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/store.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool complain(const char *path, unsigned line, const char *what)
{
    fprintf(stderr, "wring demo: %s, line %u: %s\n", path, line, what);
    return false;
}

static bool read_lines(struct demo_store *store, FILE *file)
{
    char *text = NULL;
    size_t room = 0;
    unsigned line = 0;
    bool well = true;

    while (well && getline(&text, &room, file) >= 0) {
        json_error_t error;
        json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        line++;
        if (!json_is_object(object) || !json_is_object(json_object_get(object, "key"))) {
            well = complain(store->path, line,
                            "not a finished training: remove the line, or name another file");
            json_decref(object);
        } else {
            json_array_append_new(store->lines, object);
        }
    }
    if (well && ferror(file))
        well = complain(store->path, line, strerror(errno));
    free(text);
    return well;
}

bool demo_store_open(struct demo_store *store, const char *path)
{
    *store = (struct demo_store){.path = path, .lines = json_array()};
    if (store->lines == NULL) {
        fprintf(stderr, "wring demo: out of memory\n");
        return false;
    }
    if (path[0] == '\0')
        return true;
    FILE *file = fopen(path, "re");
    if (file == NULL && errno == ENOENT)
        return true;
    if (file == NULL) {
        fprintf(stderr, "wring demo: %s: %s\n", path, strerror(errno));
        return false;
    }
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

bool demo_store_find(const struct demo_store *store, json_t *key, struct demo_training *out)
{
    size_t i;
    json_t *line;

    json_array_foreach(store->lines, i, line) if (json_equal(json_object_get(line, "key"),
                                                             key)) return take_training(line, out);
    return false;
}

static json_t *line_of(json_t *key, const struct demo_training *training)
{
    json_t *losses = json_array();
    char hash[24];

    for (int i = 0; i <= DEMO_EVALS; i++)
        json_array_append_new(losses, isfinite(training->losses[i]) ? json_real(training->losses[i])
                                                                    : json_null());
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)training->hash);
    return json_pack(
        "{s:O, s:o, s:o, s:f, s:f, s:f, s:f, s:s}", "key", key, "losses", losses, "last_loss",
        isfinite(training->last_loss) ? json_real(training->last_loss) : json_null(), "wire_bytes",
        training->wire_bytes, "late_wire_bytes", training->late_wire_bytes, "coded_bytes",
        training->coded_bytes, "late_coded_bytes", training->late_coded_bytes, "hash", hash);
}

bool demo_store_add(struct demo_store *store, json_t *key, const struct demo_training *training)
{
    json_t *line = line_of(key, training);
    bool well = line != NULL;

    if (well && store->path[0] != '\0') {
        FILE *file = fopen(store->path, "ae");
        well =
            file != NULL && json_dumpf(line, file, JSON_COMPACT) == 0 && fputc('\n', file) != EOF;
        well = file != NULL && fclose(file) == 0 && well;
        if (!well)
            fprintf(stderr, "wring demo: %s: %s\n", store->path, strerror(errno));
    } else if (!well) {
        fprintf(stderr, "wring demo: out of memory\n");
    }
    if (line != NULL)
        json_array_append_new(store->lines, line);
    return well;
}
