/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/way_work.h"

#include <string.h>

const struct wring_profile_codec *wring_way_codec(const struct wring_profile *profile,
                                                  const struct wring_profile_way *way)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, way->codec) == 0)
            return &profile->codecs[i];
    return NULL;
}

double wring_way_encode_us(const struct wring_profile_coder *coder, double elems)
{
    return wring_cost_at(&coder->encode.us, elems);
}

double wring_way_decode_us(const struct wring_profile_way *way,
                           const struct wring_profile_coder *coder, double elems)
{
    bool divisible = strcmp(way->run_as, "indivisible") != 0;
    double others = way->ranks - 1.0, added = divisible ? others / way->ranks : others;
    double us = wring_cost_at(
        wring_profile_decoding(&coder->decode.us, &coder->decode_add.us, true), added * elems);

    return divisible ? us + wring_cost_at(&coder->decode.us, added * elems) : us;
}

double wring_way_link_us(const struct wring_profile_way *way, const struct wring_cost *link_us,
                         double elems)
{
    double bytes = wring_cost_at(&way->wire_bytes, elems);
    double us = wring_cost_at(link_us, bytes), least = bytes * link_us->slope;

    return us > least ? us : least;
}

const struct wring_profile_link *wring_way_link(const struct wring_profile *profile, uint32_t nodes,
                                                uint32_t ranks_per_node)
{
    if (nodes > 1 && ranks_per_node > 1)
        return NULL;
    const struct wring_profile_link *link =
        &profile->links[nodes > 1 ? WRING_LEVEL_INTER : WRING_LEVEL_INTRA];
    return link->present ? link : NULL;
}
