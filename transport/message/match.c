/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/match.h"

#include <stddef.h>
#include <stdlib.h>

static void init_list(struct wring_match_link *list)
{
    list->next = list->previous = list;
}

static void insert_before(struct wring_match_link *at, struct wring_match_link *link)
{
    link->next = at;
    link->previous = at->previous;
    at->previous->next = link;
    at->previous = link;
}

enum wring_status wring_match_init(struct wring_match *match, uint32_t sources)
{
    *match = (struct wring_match){.sources = sources};
    match->source = calloc(sources > 0 ? sources : 1, sizeof(*match->source));
    if (match->source == NULL)
        return WRING_ERR_NO_MEMORY;
    init_list(&match->any);
    for (uint32_t i = 0; i < sources; i++) {
        init_list(&match->source[i].posted);
        init_list(&match->source[i].arrived);
    }
    return WRING_OK;
}

void wring_match_finish(struct wring_match *match)
{
    free(match->source);
    *match = (struct wring_match){0};
}

void wring_match_remove(struct wring_match_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = link;
}

static bool tags_fit(uint64_t wanted, uint64_t tag)
{
    return wanted == WRING_MATCH_ANY_TAG || wanted == tag;
}

/** A source's first message that fits, or NULL. */
static struct wring_match_arrival *first_fit(const struct wring_match_source *source, uint64_t tag)
{
    for (struct wring_match_link *at = source->arrived.next; at != &source->arrived;
         at = at->next) {
        struct wring_match_arrival *arrival = (struct wring_match_arrival *)at;
        if (tags_fit(tag, arrival->tag))
            return arrival;
    }
    return NULL;
}

static void serve(struct wring_match *match, uint32_t source)
{
    match->source[source].served = ++match->services;
}

/** Of the sources that have a message which fits, the one served least recently. */
static struct wring_match_arrival *fairest_fit(struct wring_match *match, uint64_t tag)
{
    struct wring_match_arrival *best = NULL;
    for (uint32_t i = 0; i < match->sources; i++) {
        const struct wring_match_source *source = &match->source[i];
        if (source->arrived.next == &source->arrived ||
            (best != NULL && source->served >= match->source[best->source].served))
            continue;
        struct wring_match_arrival *fit = first_fit(source, tag);
        best = fit != NULL ? fit : best;
    }
    if (best != NULL)
        serve(match, best->source);
    return best;
}

static struct wring_match_arrival *take(struct wring_match *match,
                                        const struct wring_match_receive *receive)
{
    struct wring_match_arrival *arrival =
        receive->source == WRING_MATCH_ANY_SOURCE
            ? fairest_fit(match, receive->tag)
            : first_fit(&match->source[receive->source], receive->tag);
    if (arrival != NULL)
        wring_match_remove(&arrival->link);
    return arrival;
}

static struct wring_match_link *list_of(struct wring_match *match,
                                        const struct wring_match_receive *receive)
{
    return receive->source == WRING_MATCH_ANY_SOURCE ? &match->any
                                                     : &match->source[receive->source].posted;
}

struct wring_match_arrival *wring_match_post(struct wring_match *match,
                                             struct wring_match_receive *receive)
{
    receive->order = match->orders++;
    struct wring_match_arrival *arrival = take(match, receive);
    if (arrival == NULL)
        insert_before(list_of(match, receive), &receive->link);
    return arrival;
}

struct wring_match_arrival *wring_match_post_again(struct wring_match *match,
                                                   struct wring_match_receive *receive)
{
    struct wring_match_arrival *arrival = take(match, receive);
    if (arrival != NULL)
        return arrival;
    struct wring_match_link *list = list_of(match, receive), *at = list->next;
    while (at != list && ((struct wring_match_receive *)at)->order < receive->order)
        at = at->next;
    insert_before(at, &receive->link);
    return NULL;
}

static struct wring_match_receive *first_wanting(struct wring_match_link *list, uint64_t tag)
{
    for (struct wring_match_link *at = list->next; at != list; at = at->next) {
        struct wring_match_receive *receive = (struct wring_match_receive *)at;
        if (tags_fit(receive->tag, tag))
            return receive;
    }
    return NULL;
}

struct wring_match_receive *wring_match_find(struct wring_match *match, uint32_t source,
                                             uint64_t tag)
{
    struct wring_match_receive *own = first_wanting(&match->source[source].posted, tag);
    struct wring_match_receive *any = first_wanting(&match->any, tag);
    struct wring_match_receive *first =
        own == NULL || (any != NULL && any->order < own->order) ? any : own;
    if (first == NULL)
        return NULL;
    if (first == any)
        serve(match, source);
    wring_match_remove(&first->link);
    return first;
}

void wring_match_keep(struct wring_match *match, struct wring_match_arrival *arrival)
{
    insert_before(&match->source[arrival->source].arrived, &arrival->link);
}

struct wring_match_receive *wring_match_first_receive(const struct wring_match *match)
{
    if (match->source == NULL)
        return NULL;
    if (match->any.next != &match->any)
        return (struct wring_match_receive *)match->any.next;
    for (uint32_t i = 0; i < match->sources; i++)
        if (match->source[i].posted.next != &match->source[i].posted)
            return (struct wring_match_receive *)match->source[i].posted.next;
    return NULL;
}

struct wring_match_arrival *wring_match_first_arrival(const struct wring_match *match)
{
    for (uint32_t i = 0; match->source != NULL && i < match->sources; i++)
        if (wring_match_has_arrivals(match, i))
            return (struct wring_match_arrival *)match->source[i].arrived.next;
    return NULL;
}
