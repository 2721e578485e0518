/* A stand-in for libnvidia-ml.so, written from NVIDIA's public NVML API reference (nvml.h).
 *
 * The fleet comes from the environment, so that each test describes its own:
 *
 *   FAKE_NVML_FLEET="name=NVIDIA H100 80GB HBM3,uuid=GPU-1,bus=00000000:1B:00.0,memory=81559;name=..."
 *
 * Keys: name uuid bus memory used (MiB) busy (%) cc (89 is 8.9) temp power (mW) ecc pages pending failed
 *       mig (0, 1; absent: not supported) slices (uuid/name/MiB|...) nvlink (far end's bus, or switch, for each link: a|b)
 *       node pcie (devices with the same pcie share a PCIe switch; with the same node, a NUMA node)
 *       lost (1: no handle is given out) fail (Function:code|...) hang (Function)
 * A function named in `hang` never returns. FAKE_NVML_INIT=code makes nvmlInitWithFlags fail.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 64
#define SLICES_MAX 8

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

typedef struct device {
    char text[2048];
    struct device *parent;
    char uuid[96], name[96];
    unsigned long long memory_mib;
    struct device *slices[SLICES_MAX];
    int slice_count;
} device;

static device fleet[DEVICES_MAX];
static device pool[DEVICES_MAX * SLICES_MAX];
static int fleet_count, pool_count;

static const char *value(const device *d, const char *key, char *into, size_t size) {
    size_t length = strlen(key);
    for (const char *at = d->text; at && *at;) {
        const char *end = strchr(at, ',');
        size_t whole = end ? (size_t)(end - at) : strlen(at);
        if (whole > length && !strncmp(at, key, length) && at[length] == '=') {
            size_t part = whole - length - 1;
            if (part >= size) part = size - 1;
            memcpy(into, at + length + 1, part);
            into[part] = 0;
            return into;
        }
        at = end ? end + 1 : NULL;
    }
    return NULL;
}

static long number(const device *d, const char *key, long otherwise) {
    char text[64];
    return value(d, key, text, sizeof text) ? strtol(text, NULL, 10) : otherwise;
}

/* What the fleet says of this function on this device: 0 to answer, else an error code. */
static int trouble(const device *d, const char *function) {
    char text[512];
    const device *real = d->parent ? d->parent : d;
    if (value(real, "hang", text, sizeof text) && !strcmp(text, function))
        for (;;) pause();
    if (value(real, "fail", text, sizeof text)) {
        size_t length = strlen(function);
        for (char *part = strtok(text, "|"); part; part = strtok(NULL, "|"))
            if (!strncmp(part, function, length) && part[length] == ':') return atoi(part + length + 1);
    }
    return OK;
}

static int copied(char *into, unsigned size, const char *text) {
    if (strlen(text) + 1 > size) return TOO_SMALL;
    strcpy(into, text);
    return OK;
}

static void read_slices(device *d) {
    char text[1024];
    if (!value(d, "slices", text, sizeof text)) return;
    char *outer = NULL;
    for (char *part = strtok_r(text, "|", &outer); part; part = strtok_r(NULL, "|", &outer)) {
        device *slice = &pool[pool_count++];
        memset(slice, 0, sizeof *slice);
        slice->parent = d;
        sscanf(part, "%95[^/]/%95[^/]/%llu", slice->uuid, slice->name, &slice->memory_mib);
        d->slices[d->slice_count++] = slice;
    }
}

int nvmlInitWithFlags(unsigned flags) {
    const char *code = getenv("FAKE_NVML_INIT"), *text = getenv("FAKE_NVML_FLEET");
    (void)flags;
    if (code) return atoi(code);
    fleet_count = pool_count = 0;
    for (const char *at = text; at && *at && fleet_count < DEVICES_MAX;) {
        const char *end = strchr(at, ';');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        device *d = &fleet[fleet_count++];
        memset(d, 0, sizeof *d);
        memcpy(d->text, at, length < sizeof d->text ? length : sizeof d->text - 1);
        if (!value(d, "uuid", d->uuid, sizeof d->uuid)) d->uuid[0] = 0;
        if (!value(d, "name", d->name, sizeof d->name)) d->name[0] = 0;
        d->memory_mib = (unsigned long long)number(d, "memory", 0);
        read_slices(d);
        at = end ? end + 1 : NULL;
    }
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake error"; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) { return copied(into, size, "550.54.14"); }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)fleet_count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **d) {
    if (index >= (unsigned)fleet_count) return INVALID;
    if (number(&fleet[index], "lost", 0)) return LOST;
    *d = &fleet[index];
    return OK;
}

#define ANSWER(function, d)                       \
    do {                                          \
        int code = trouble((d), function);        \
        if (code != OK) return code;              \
    } while (0)

int nvmlDeviceGetName(device *d, char *into, unsigned size) {
    ANSWER("Name", d);
    return copied(into, size, d->name);
}
int nvmlDeviceGetUUID(device *d, char *into, unsigned size) {
    ANSWER("UUID", d);
    return copied(into, size, d->uuid);
}

typedef struct { unsigned long long total, free, used; } memory_info;
int nvmlDeviceGetMemoryInfo(device *d, memory_info *info) {
    ANSWER("MemoryInfo", d);
    info->total = d->memory_mib << 20;
    info->used = (unsigned long long)number(d, "used", 0) << 20;
    info->free = info->total - info->used;
    return OK;
}

typedef struct { unsigned gpu, memory; } utilisation;
int nvmlDeviceGetUtilizationRates(device *d, utilisation *into) {
    ANSWER("UtilizationRates", d);
    into->gpu = (unsigned)number(d, "busy", 0);
    into->memory = 0;
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    ANSWER("CudaComputeCapability", d);
    *major = (int)(number(d, "cc", 80) / 10);
    *minor = (int)(number(d, "cc", 80) % 10);
    return OK;
}

typedef struct {
    char bus_legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} pci_info;
static void fill_pci(pci_info *into, const char *bus) {
    memset(into, 0, sizeof *into);
    snprintf(into->bus_id, sizeof into->bus_id, "%s", bus);
}
int nvmlDeviceGetPciInfo_v3(device *d, pci_info *into) {
    char bus[64];
    ANSWER("PciInfo", d);
    fill_pci(into, value(d, "bus", bus, sizeof bus) ? bus : "");
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(device *a, device *b, int *level) {
    ANSWER("TopologyCommonAncestor", a);
    long pcie_a = number(a, "pcie", -1), pcie_b = number(b, "pcie", -2);
    *level = pcie_a == pcie_b ? 10 : number(a, "node", 0) == number(b, "node", 0) ? 40 : 50;
    return OK;
}

static int link_end(device *d, unsigned link, char *into, size_t size) {
    char text[512];
    if (!value(d, "nvlink", text, sizeof text)) return NOT_SUPPORTED;
    unsigned at = 0;
    char *outer = NULL;
    for (char *part = strtok_r(text, "|", &outer); part; part = strtok_r(NULL, "|", &outer), at++)
        if (at == link) {
            snprintf(into, size, "%s", part);
            return OK;
        }
    return INVALID;
}
int nvmlDeviceGetNvLinkState(device *d, unsigned link, unsigned *active) {
    char end[64];
    ANSWER("NvLinkState", d);
    int code = link_end(d, link, end, sizeof end);
    *active = code == OK && strcmp(end, "off") != 0;
    return code;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, unsigned link, unsigned *kind) {
    char end[64];
    ANSWER("NvLinkRemoteDeviceType", d);
    int code = link_end(d, link, end, sizeof end);
    *kind = code == OK && !strcmp(end, "switch") ? 2 : 0;
    return code;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, unsigned link, pci_info *into) {
    char end[64];
    ANSWER("NvLinkRemotePciInfo", d);
    int code = link_end(d, link, end, sizeof end);
    if (code == OK) fill_pci(into, end);
    return code;
}

int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *pending) {
    ANSWER("MigMode", d);
    long mode = number(d, "mig", -1);
    if (mode < 0) return NOT_SUPPORTED;
    *now = *pending = (unsigned)mode;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) {
    ANSWER("MaxMigDeviceCount", d);
    *count = 7;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **slice) {
    ANSWER("MigDeviceHandleByIndex", d);
    if (index >= (unsigned)d->slice_count) return NOT_FOUND;
    *slice = d->slices[index];
    return OK;
}

int nvmlDeviceGetTotalEccErrors(device *d, int kind, int counter, unsigned long long *count) {
    (void)kind, (void)counter;
    ANSWER("TotalEccErrors", d);
    long errors = number(d, "ecc", -1);
    if (errors < 0) return NOT_SUPPORTED;
    *count = (unsigned long long)errors;
    return OK;
}
int nvmlDeviceGetRemappedRows(device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ANSWER("RemappedRows", d);
    if (number(d, "pending", -1) < 0 && number(d, "failed", -1) < 0) return NOT_SUPPORTED;
    *corrected = *uncorrected = 0;
    *pending = number(d, "pending", 0) > 0;
    *failed = number(d, "failed", 0) > 0;
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device *d, unsigned *pending) {
    ANSWER("RetiredPagesPendingStatus", d);
    long pages = number(d, "pages", -1);
    if (pages < 0) return NOT_SUPPORTED;
    *pending = pages > 0;
    return OK;
}

int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *celsius) {
    (void)sensor;
    ANSWER("Temperature", d);
    *celsius = (unsigned)number(d, "temp", 40);
    return OK;
}
int nvmlDeviceGetTemperatureThreshold(device *d, int threshold, unsigned *celsius) {
    (void)threshold;
    ANSWER("TemperatureThreshold", d);
    *celsius = 90;
    return OK;
}
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) {
    ANSWER("PowerUsage", d);
    *mw = (unsigned)number(d, "power", 60000);
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *mw) {
    ANSWER("EnforcedPowerLimit", d);
    *mw = 450000;
    return OK;
}
