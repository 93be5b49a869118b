/* SPDX-License-Identifier: Apache-2.0 */
/** The devices: their list, contexts, and what they say about themselves and their ports. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/provider/mock/mock_inside.h"

#undef ibv_query_port /* the header's wraps the function of that name */

#define VENDOR 0x0a0c4e /* nobody's */

struct ibv_device **ibv_get_device_list(int *n)
{
    struct mock_process *self = mock_process();
    if (self == NULL || mock_call_fails("ibv_get_device_list"))
        return NULL;
    struct ibv_device **list = calloc(self->options.devices + 1, sizeof(*list));
    if (list == NULL)
        return NULL;
    for (unsigned i = 0; i < self->options.devices; i++)
        list[i] = &self->devices[i].base;
    if (n != NULL)
        *n = (int)self->options.devices;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(0x0200000000000000u + ((struct mock_device *)device)->number);
}

int ibv_get_device_index(struct ibv_device *device)
{
    return (int)((struct mock_device *)device)->index;
}

static struct mock_context *context_of(struct ibv_context *context)
{
    return (struct mock_context *)verbs_get_ctx(context);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct mock_device *device = context_of(context)->device;
    const struct mock_options *options = &mock_self.options;
    *attr = (struct ibv_device_attr){
        .fw_ver = "0.0.0",
        .node_guid = ibv_get_device_guid(context->device),
        .sys_image_guid = ibv_get_device_guid(context->device),
        .max_mr_size = UINT64_MAX,
        .page_size_cap = 4096,
        .vendor_id = VENDOR,
        .max_qp = MOCK_QPS,
        .max_qp_wr = (int)options->device[device->index].depth,
        .device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN,
        .max_sge = (int)options->device[device->index].sges,
        .max_sge_rd = (int)options->device[device->index].sges,
        .max_cq = MOCK_CQS,
        .max_cqe = (int)options->device[device->index].cqe,
        .max_mr = MOCK_MRS,
        .max_pd = 1 << 16,
        .max_qp_rd_atom = 16,
        .max_res_rd_atom = 16 * MOCK_QPS,
        .max_qp_init_rd_atom = 16,
        .atomic_cap = IBV_ATOMIC_NONE,
        .max_pkeys = MOCK_PKEYS,
        .phys_port_cnt = (uint8_t)options->ports,
    };
    return 0;
}

static int query_device_ex(struct ibv_context *context,
                           const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t bytes)
{
    struct ibv_device_attr_ex all = {0};
    (void)input;
    ibv_query_device(context, &all.orig_attr);
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
    memset(attr, 0, bytes);
    memcpy(attr, &all, bytes < sizeof(all) ? bytes : sizeof(all));
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
                      size_t bytes)
{
    const struct mock_device *device = context_of(context)->device;
    net_lock(mock_self.net);
    const struct net_port *port = mock_port(device->number, number);
    struct ibv_port_attr all = {0};
    if (port != NULL)
        all = (struct ibv_port_attr){
            .state = port->state,
            .max_mtu = IBV_MTU_4096,
            .active_mtu = port->mtu,
            .gid_tbl_len = MOCK_GIDS,
            .max_msg_sz = mock_self.options.device[device->index].message,
            .pkey_tbl_len = MOCK_PKEYS,
            .lid = port->link_layer == IBV_LINK_LAYER_INFINIBAND ? port->lid : 0,
            .sm_lid = port->link_layer == IBV_LINK_LAYER_INFINIBAND,
            .max_vl_num = 1,
            .active_width = port->width,
            .active_speed = port->speed,
            .phys_state = port->state == IBV_PORT_ACTIVE ? 5 : 3,
            .link_layer = port->link_layer,
        };
    net_unlock(mock_self.net);
    if (port == NULL)
        return EINVAL;
    memset(attr, 0, bytes);
    memcpy(attr, &all, bytes < sizeof(all) ? bytes : sizeof(all));
    return 0;
}

/** The older part of it. */
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
    return query_port(context, number, (struct ibv_port_attr *)attr,
                      offsetof(struct ibv_port_attr, port_cap_flags2));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t number, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
    static const union ibv_gid none;
    const struct net_port *port = mock_port(context_of(context)->device->number, number);
    if (port == NULL || index >= MOCK_GIDS || flags != 0)
        return EINVAL;
    bool ib = port->link_layer == IBV_LINK_LAYER_INFINIBAND;
    struct ibv_gid_entry all = {
        .gid = port->gids[index],
        .gid_index = index,
        .port_num = number,
        .gid_type = ib ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
    };
    if (memcmp(&all.gid, &none, sizeof(none)) == 0)
        return ENODATA;
    memcpy(entry, &all, bytes < sizeof(all) ? bytes : sizeof(all));
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
    const struct net_port *port = mock_port(context_of(context)->device->number, number);
    if (port == NULL || index < 0 || index >= MOCK_GIDS) {
        errno = EINVAL;
        return -1;
    }
    *gid = port->gids[index];
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t number, int index, __be16 *pkey)
{
    const struct net_port *port = mock_port(context_of(context)->device->number, number);
    if (port == NULL || index < 0 || index >= MOCK_PKEYS) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htons(port->pkeys[index]);
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t number, __be16 pkey)
{
    __be16 at;
    for (int i = 0; ibv_query_pkey(context, number, i, &at) == 0; i++)
        if (at == pkey)
            return i;
    return -1;
}

static void install(struct mock_context *context)
{
    const struct mock_device *device = context->device;
    struct verbs_context *verbs = &context->verbs;
    verbs->sz = sizeof(*verbs);
    verbs->query_port = query_port;
    verbs->query_device_ex = query_device_ex;
    if (mock_self.options.device[device->index].cqex)
        verbs->create_cq_ex = mock_create_cq_ex;
    if (mock_self.options.device[device->index].wr)
        verbs->create_qp_ex = mock_create_qp_ex;
    verbs->context.device = &context->device->base;
    verbs->context.ops.poll_cq = mock_poll_cq;
    verbs->context.ops.req_notify_cq = mock_req_notify;
    verbs->context.ops.post_send = mock_post_send;
    verbs->context.ops.post_recv = mock_post_receive;
    verbs->context.cmd_fd = -1;
    verbs->context.num_comp_vectors = 2;
    verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&verbs->context.mutex, NULL);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (mock_call_fails("ibv_open_device"))
        return NULL;
    struct mock_context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return NULL;
    context->device = (struct mock_device *)device;
    int32_t bell = net_bell_create(mock_self.net, &context->verbs.context.async_fd);
    if (bell < 0) {
        free(context);
        return NULL;
    }
    context->bell = (uint32_t)bell;
    net_lock(mock_self.net);
    int32_t index = net_take_context(mock_self.net, context->device->number, context->bell);
    mock_self.counts.contexts += index >= 0;
    mock_self.counts.opens += index >= 0;
    net_unlock(mock_self.net);
    if (index < 0) {
        net_bell_destroy(mock_self.net, context->bell, context->verbs.context.async_fd);
        free(context);
        return NULL;
    }
    context->index = (uint32_t)index;
    install(context);
    return &context->verbs.context;
}

int ibv_close_device(struct ibv_context *base)
{
    struct mock_context *context = context_of(base);
    net_lock(mock_self.net);
    mock_self.net->contexts[context->index].pid = 0;
    mock_self.counts.contexts--;
    net_unlock(mock_self.net);
    net_bell_destroy(mock_self.net, context->bell, base->async_fd);
    pthread_mutex_destroy(&base->mutex);
    free(context);
    return 0;
}
