/* SPDX-License-Identifier: Apache-2.0 */
/** The providers that the list in providers.c is made of. */
#ifndef WRING_PROVIDERS_H
#define WRING_PROVIDERS_H

#include <wring/provider.h>

extern const struct wring_provider_ops wring_provider_shm;
extern const struct wring_provider_ops wring_provider_verbs;

#endif
