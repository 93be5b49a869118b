/* SPDX-License-Identifier: Apache-2.0 */
/** RDMA devices: what each port is, what its device can do, and which would be used now. */
#include <string.h>

#include "base/json.h"
#include "tools/info/info.h"
#include "transport/providers/verbs/select.h"

static json_t *describe_gids(const struct verbs_port *port)
{
    json_t *gids = json_array();
    char text[VERBS_GID_TEXT];

    for (unsigned i = 0; i < port->n_gids; i++) {
        const struct verbs_gid *gid = &port->gids[i];
        json_array_append_new(gids,
                              json_pack("{s:i, s:s, s:s}", "index", gid->index, "type",
                                        wring_verbs_gid_type_text((enum verbs_gid_type)gid->type),
                                        "address", wring_verbs_gid_text(gid->bytes, text)));
    }
    return gids;
}

static json_t *describe_pkeys(const struct verbs_port *port)
{
    json_t *pkeys = json_array();

    for (unsigned i = 0; i < port->n_pkeys; i++)
        if (port->pkeys[i] != 0)
            json_array_append_new(pkeys, json_sprintf("0x%04x", port->pkeys[i]));
    return pkeys;
}

static json_t *describe_abilities(const struct verbs_abilities *can)
{
    return json_pack(
        "{s:b, s:b, s:b, s:I, s:I, s:o}", "extended_cq", can->extended_cq, "wr_calls",
        can->wr_calls, "dmabuf", can->dmabuf, "inline_bytes", (json_int_t)can->inline_bytes,
        "max_queue_pairs", (json_int_t)can->max_queue_pairs, "max_region_bytes",
        can->max_region_bytes <= INT64_MAX ? json_integer((json_int_t)can->max_region_bytes)
                                           : json_null() /* no limit */);
}

static const char *place_word(enum verbs_place place)
{
    switch (place) {
    case VERBS_PLACE_UNKNOWN:
        return "unknown";
    case VERBS_PLACE_NEAR:
        return "near";
    case VERBS_PLACE_FAR:
        return "far";
    }
    return "unknown";
}

/** The number of the rail that a port would be; JSON null where it would be none. */
static json_t *rail_of(const struct verbs_survey *survey, const struct verbs_port *port)
{
    for (size_t i = 0; i < survey->n_rails; i++)
        if (survey->rails[i].port == port->number &&
            strcmp(survey->rails[i].device, port->device) == 0)
            return json_integer((json_int_t)i);
    return json_null();
}

static json_t *describe_port(const struct verbs_survey *survey, size_t index)
{
    const struct verbs_port *port = &survey->table.ports[index];
    json_t *json =
        json_pack("{s:s, s:i, s:o, s:o}", "device", port->device, "port", port->number, "rail",
                  rail_of(survey, port), "why", wring_json_text(survey->why[index]));

    if (json == NULL || port->trouble[0] != '\0')
        return json;
    json_t *more = json_pack(
        "{s:s, s:s, s:o, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "state",
        wring_verbs_state_text(port->state), "link", wring_verbs_link_text(port->link), "gbit",
        port->mbit > 0 ? json_real(port->mbit / 1e3) : json_null(), "mtu_bytes", (int)port->mtu,
        "max_mtu_bytes", (int)port->max_mtu, "lid", port->lid, "place", place_word(port->place),
        "numa", port->numa >= 0 ? json_integer(port->numa) : json_null(), "vendor",
        json_sprintf("0x%06x", port->vendor), "gids", describe_gids(port), "pkeys",
        describe_pkeys(port), "abilities", describe_abilities(&port->can));
    json_object_update(json, more);
    json_decref(more);
    return json;
}

json_t *wring_info_rdma(const struct wring_config *config)
{
    struct verbs_survey survey;
    json_t *ports = json_array();

    wring_verbs_survey(config, &survey);
    for (size_t i = 0; i < survey.table.n; i++)
        json_array_append_new(ports, describe_port(&survey, i));
    json_t *rdma =
        json_pack("{s:o, s:o, s:o, s:i, s:o}", "asked", wring_json_text(config->verbs_devices),
                  "unmatched", wring_json_text(survey.unmatched), "reason",
                  wring_json_text(survey.reason), "rails", (int)survey.n_rails, "ports", ports);
    wring_verbs_survey_finish(&survey);
    return rdma;
}
