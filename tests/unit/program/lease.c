// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "support/program.h"

/* A file of a module of one function. */
struct leased {
	char path[32];
	struct module module;
	struct function function;
	const struct function *chosen[1];
	struct lease_set leases;
};

static void leased_make(struct leased *l)
{
	struct stat status;
	int fd;

	*l = (struct leased){.path = "/tmp/lease-XXXXXX"};
	fd = mkstemp(l->path);
	cr_assert(fd >= 0 && write(fd, "code", 4) == 4 && !fstat(fd, &status));
	close(fd);
	l->module = (struct module){.path = l->path,
				    .probe_path = l->path,
				    .is_stamped = true,
				    .size = status.st_size,
				    .modified = status.st_mtim};
	l->function.module = &l->module;
	l->chosen[0] = &l->function;
}

static void leased_remove(struct leased *l)
{
	leases_release(&l->leases);
	unlink(l->path);
}

static int open_to_write(const struct leased *l)
{
	int fd = open(l->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

Test(lease, makes_a_writer_wait_until_the_release)
{
	struct leased l;
	int fd;

	leased_make(&l);
	cr_assert_eq(leases_take(&l.leases, l.chosen, 1), 0);
	cr_assert_eq(l.leases.count, 1);
	cr_assert_null(leases_lost(&l.leases));
	cr_assert_eq(open_to_write(&l), -EWOULDBLOCK);
	cr_assert_eq(leases_lost(&l.leases), &l.module);
	leases_release(&l.leases);
	fd = open_to_write(&l);
	cr_assert_geq(fd, 0);
	close(fd);
	leased_remove(&l);
}

Test(lease, is_refused_on_a_file_that_has_changed_since_it_was_listed)
{
	struct leased l;

	leased_make(&l);
	cr_assert_eq(truncate(l.path, 1), 0);
	cr_assert_eq(leases_take(&l.leases, l.chosen, 1), -ESTALE);
	leased_remove(&l);
}

Test(lease, where_none_can_be_had_the_file_is_compared)
{
	struct leased l;
	int writer;

	leased_make(&l);
	writer = open(l.path, O_WRONLY | O_APPEND | O_CLOEXEC);
	cr_assert_geq(writer, 0);
	cr_assert_eq(leases_take(&l.leases, l.chosen, 1), 0);
	cr_assert_null(leases_lost(&l.leases));
	cr_assert_eq(write(writer, "more", 4), 4);
	cr_assert_eq(leases_lost(&l.leases), &l.module);
	close(writer);
	leased_remove(&l);
}
