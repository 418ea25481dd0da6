// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

struct lease {
	const struct module *module;
	int fd;	      /* -1: the file cannot be opened */
	bool is_held; /* was, at first */
};

/* The size and the times are those of when the module was listed, before anything of it was read. */
static bool file_has_changed(const struct lease *lease)
{
	const struct module *module = lease->module;
	struct stat status;

	if (lease->fd < 0 || !module->is_stamped || fstat(lease->fd, &status))
		return false;
	return status.st_size != module->size || status.st_mtim.tv_sec != module->modified.tv_sec ||
	       status.st_mtim.tv_nsec != module->modified.tv_nsec;
}

/* The signal is chosen first: that of a lease is otherwise SIGIO, which kills. */
static void lease_open(struct lease *lease, const struct module *module)
{
	*lease = (struct lease){.module = module,
				.fd = open(module->probe_path, O_RDONLY | O_CLOEXEC)};
	if (lease->fd < 0 || fcntl(lease->fd, F_SETSIG, LEASE_SIGNAL))
		return;
	lease->is_held = !fcntl(lease->fd, F_SETLEASE, F_RDLCK);
	if (!lease->is_held && errno == EAGAIN)
		log_warning(
			"%s is open for writing: should it be written to while it is hooked, programs that run it may "
			"die",
			module->path);
}

int leases_take(struct lease_set *set, const struct function *const *functions, size_t count)
{
	set->items = calloc(count + 1, sizeof(*set->items));
	if (!set->items)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct module *module = functions[i]->module;

		if (i && functions[i - 1]->module == module)
			continue;
		lease_open(&set->items[set->count++], module);
		if (!file_has_changed(&set->items[set->count - 1]))
			continue;
		log_error("%s has changed while its functions were looked up: try again",
			  module->path);
		return -ESTALE;
	}
	return 0;
}

/* A lease that is to be given up is shown as what it is to become. */
static bool lease_is_lost(const struct lease *lease)
{
	if (!lease->is_held)
		return file_has_changed(lease);
	return fcntl(lease->fd, F_GETLEASE) != F_RDLCK;
}

const struct module *leases_lost(const struct lease_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		if (lease_is_lost(&set->items[i]))
			return set->items[i].module;
	}
	return NULL;
}

/* A child that has not exec'ed yet may have the descriptor, too: closing ours would not do. */
void leases_release(struct lease_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->items[i].is_held)
			fcntl(set->items[i].fd, F_SETLEASE, F_UNLCK);
		if (set->items[i].fd >= 0)
			close(set->items[i].fd);
	}
	free(set->items);
	*set = (struct lease_set){0};
}
