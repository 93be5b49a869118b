/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/json_place.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 12

struct level {
    bool list;
    size_t index;    /* of a list */
    const char *key; /* of an object: as written, without its quotes; NULL: none yet */
    int key_bytes;
    bool wants_key; /* the next string is one */
};

struct walk {
    struct level levels[DEPTH];
    unsigned depth; /* may be more than DEPTH */
};

static struct level *inner(struct walk *walk)
{
    return walk->depth > 0 && walk->depth <= DEPTH ? &walk->levels[walk->depth - 1] : NULL;
}

static void open_level(struct walk *walk, bool list)
{
    walk->depth++;
    if (inner(walk) != NULL)
        *inner(walk) = (struct level){.list = list, .wants_key = !list};
}

static void next_element(struct level *level)
{
    if (level == NULL)
        return;
    level->index++;
    level->key = NULL;
    level->wants_key = !level->list;
}

/** @return the byte after the string's closing quote, or position */
static size_t skip_string(struct walk *walk, const char *text, size_t at, size_t position)
{
    size_t begin = ++at;
    struct level *level = inner(walk);

    while (at < position && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    if (at > position)
        at = position;
    if (level != NULL && level->wants_key) {
        level->key = text + begin;
        level->key_bytes = (int)(at - begin < 100 ? at - begin : 100);
        level->wants_key = false;
    }
    return at < position ? at + 1 : position;
}

static void show(const struct walk *walk, char *path, size_t bytes)
{
    size_t used = 0;

    path[0] = '\0';
    for (unsigned i = 0; i < walk->depth && i < DEPTH && used < bytes; i++) {
        const struct level *level = &walk->levels[i];
        if (level->list)
            used += (size_t)snprintf(path + used, bytes - used, "[%zu]", level->index);
        else if (level->key != NULL)
            used += (size_t)snprintf(path + used, bytes - used, "%s%.*s", used > 0 ? "." : "",
                                     level->key_bytes, level->key);
    }
}

void wring_json_place(const char *text, size_t position, char *path, size_t bytes)
{
    struct walk walk = {.depth = 0};

    for (size_t at = 0; at < position;) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(&walk, text, at, position);
            continue;
        }
        if (c == '{' || c == '[')
            open_level(&walk, c == '[');
        else if ((c == '}' || c == ']') && walk.depth > 0)
            walk.depth--;
        else if (c == ',')
            next_element(inner(&walk));
        at++;
    }
    show(&walk, path, bytes);
}
