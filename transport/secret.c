/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/secret.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

bool wring_hmac(const uint8_t *key, size_t key_bytes, const void *data, size_t bytes,
                uint8_t out[WRING_MAC_BYTES])
{
    unsigned written = 0;
    return HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, out, &written) != NULL &&
           written == WRING_MAC_BYTES;
}

bool wring_random_bytes(uint8_t *out, size_t bytes)
{
    for (;;) {
        ssize_t n = getrandom(out, bytes, 0); /* up to 256 bytes come whole */
        if (n == (ssize_t)bytes)
            return true;
        if (n >= 0 || errno != EINTR)
            return false;
    }
}

enum wring_status wring_secret_derive(const void *key, size_t bytes, const char *label,
                                      const void *salt, size_t salt_bytes,
                                      uint8_t out[WRING_SECRET_BYTES])
{
    static const uint8_t no_salt[WRING_MAC_BYTES];
    uint8_t inner[WRING_MAC_BYTES], text[128];
    size_t label_bytes = strlen(label);
    assert(label_bytes < sizeof(text));

    memcpy(text, label, label_bytes);
    text[label_bytes] = 1; /* the number of the block of output: there is one */
    if (salt_bytes == 0) {
        salt = no_salt;
        salt_bytes = sizeof(no_salt);
    }
    bool good = wring_hmac(salt, salt_bytes, key, bytes, inner) &&
                wring_hmac(inner, sizeof(inner), text, label_bytes + 1, out);
    OPENSSL_cleanse(inner, sizeof(inner));
    return good ? WRING_OK : WRING_ERR_SYSTEM;
}
