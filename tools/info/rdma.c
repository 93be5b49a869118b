/* SPDX-License-Identifier: Apache-2.0 */
/** RDMA devices: what each port is, what its device can do, and which would be used now. */
#include <string.h>

#include "base/json.h"
#include "tools/info/info.h"
#include "tools/output.h"
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

static json_t *describe_caps(const struct verbs_caps *can)
{
    return json_pack(
        "{s:b, s:b, s:b, s:I, s:I, s:o}", "extended_cq", can->extended_cq, "wr_calls",
        can->wr_calls, "dmabuf", can->dmabuf, "inline_bytes", (json_int_t)can->inline_bytes,
        "max_queue_pairs", (json_int_t)can->max_queue_pairs, "max_region_bytes",
        can->max_region_bytes <= INT64_MAX ? json_integer((json_int_t)can->max_region_bytes)
                                           : json_null() /* no limit */);
}

static const char *locality_word(enum verbs_locality locality)
{
    switch (locality) {
    case VERBS_LOCALITY_UNKNOWN:
        return "unknown";
    case VERBS_LOCALITY_NEAR:
        return "near";
    case VERBS_LOCALITY_FAR:
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
    json_t *more =
        json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o}", "state",
                  wring_verbs_state_text(port->state), "link", wring_verbs_link_text(port->link),
                  "gbit", port->mbit > 0 ? json_real(port->mbit / 1e3) : json_null(), "mtu_bytes",
                  (int)port->mtu, "max_mtu_bytes", (int)port->max_mtu, "lid", port->lid, "place",
                  locality_word(port->locality), "numa",
                  port->numa >= 0 ? json_integer(port->numa) : json_null(), "vendor",
                  json_sprintf("0x%06x", port->vendor), "gids", describe_gids(port), "pkeys",
                  describe_pkeys(port), "abilities", describe_caps(&port->can));
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

/* ---- rdma show ---- */

/* RDMA devices, for people. */

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void add_number(struct wring_table *table, json_t *object, const char *key)
{
    json_t *number = json_object_get(object, key);
    if (json_is_integer(number))
        wring_table_cell(table, "%lld", (long long)json_integer_value(number));
    else if (json_is_number(number))
        wring_table_cell(table, "%g", json_number_value(number));
    else
        wring_table_cell(table, "%s", json_is_null(number) ? "unknown" : "");
}

static void add_name(struct wring_table *table, json_t *port)
{
    wring_table_cell(table, "%s:%lld", text_of(port, "device"),
                     (long long)json_integer_value(json_object_get(port, "port")));
}

static void show_ports(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"port", WRING_ALIGN_LEFT},    {"link", WRING_ALIGN_LEFT}, {"state", WRING_ALIGN_LEFT},
        {"Gbit/s", WRING_ALIGN_RIGHT}, {"MTU", WRING_ALIGN_RIGHT}, {"place", WRING_ALIGN_LEFT},
        {"rail", WRING_ALIGN_LEFT},    {"why", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, 8);
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *rail = json_object_get(port, "rail");
        add_name(table, port);
        wring_table_cell(table, "%s", text_of(port, "link"));
        wring_table_cell(table, "%s", text_of(port, "state"));
        add_number(table, port, "gbit");
        add_number(table, port, "mtu_bytes");
        wring_table_cell(table, "%s", text_of(port, "place"));
        if (json_is_integer(rail))
            wring_table_cell(table, "%lld", (long long)json_integer_value(rail));
        else
            wring_table_cell(table, "no");
        wring_table_cell(table, "%s", text_of(port, "why"));
    }
    wring_table_finish(table, file);
}

static void show_gids(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {{"port", WRING_ALIGN_LEFT},
                                                        {"GID index", WRING_ALIGN_RIGHT},
                                                        {"type", WRING_ALIGN_LEFT},
                                                        {"address", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 4);
    json_t *port, *gid;
    size_t i, j;

    json_array_foreach(ports, i, port) json_array_foreach(json_object_get(port, "gids"), j, gid)
    {
        add_name(table, port);
        add_number(table, gid, "index");
        wring_table_cell(table, "%s", text_of(gid, "type"));
        wring_table_cell(table, "%s", text_of(gid, "address"));
    }
    wring_table_finish(table, file);
}

static void add_ability(struct wring_table *table, json_t *can, const char *key)
{
    wring_table_cell(table, "%s", json_is_true(json_object_get(can, key)) ? "yes" : "no");
}

/** A line for each device: its ports can do the same. */
static void show_caps(FILE *file, json_t *ports)
{
    static const struct wring_table_column columns[] = {
        {"device", WRING_ALIGN_LEFT},        {"extended CQ", WRING_ALIGN_LEFT},
        {"ibv_wr_*", WRING_ALIGN_LEFT},      {"dma-buf", WRING_ALIGN_LEFT},
        {"inline bytes", WRING_ALIGN_RIGHT}, {"queue pairs", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 6);
    const char *last = "";
    json_t *port;
    size_t i;

    json_array_foreach(ports, i, port)
    {
        json_t *can = json_object_get(port, "abilities");
        if (can == NULL || strcmp(last, text_of(port, "device")) == 0)
            continue;
        last = text_of(port, "device");
        wring_table_cell(table, "%s", last);
        add_ability(table, can, "extended_cq");
        add_ability(table, can, "wr_calls");
        add_ability(table, can, "dmabuf");
        add_number(table, can, "inline_bytes");
        add_number(table, can, "max_queue_pairs");
    }
    wring_table_finish(table, file);
}

void wring_info_show_rdma(FILE *file, json_t *rdma)
{
    json_t *ports = json_object_get(rdma, "ports");
    const char *asked = text_of(rdma, "asked");

    if (json_array_size(ports) == 0) {
        fprintf(file, "RDMA: %s\n\n", text_of(rdma, "reason"));
        return;
    }
    if (asked[0] != '\0')
        fprintf(file, "RDMA ports, WRING_VERBS_DEVICES=%s:\n", asked);
    else
        fprintf(file, "RDMA ports, and which of them verbs would use (WRING_VERBS_DEVICES):\n");
    if (text_of(rdma, "unmatched")[0] != '\0')
        fprintf(file, "  there is no %s\n", text_of(rdma, "unmatched"));
    show_ports(file, ports);
    show_gids(file, ports);
    show_caps(file, ports);
    fputc('\n', file);
}
