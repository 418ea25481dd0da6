// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions that begin with instructions of VEX encoding, whose opcode bytes are those of jumps in the legacy map, as -mavx2
 * makes them: moves (7e, 7f), shuffles (70), comparisons (76), or (eb), subtraction (e8), and with AVX-512 an EVEX one (7a).
 * Truth: prints "1000 rounds, 0 wrong", or "no AVX2 here" on a processor without.
 */
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

#define HOOKED __attribute__((noinline, noclone, target("avx2")))

HOOKED int vector_bits(float value)
{
	int bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

HOOKED void vector_store(void *to, __m256i value)
{
	_mm256_storeu_si256(to, value);
}

HOOKED __m128i vector_shuffle(__m128i value)
{
	return _mm_shuffle_epi32(value, 27);
}

HOOKED __m128i vector_equal(__m128i a, __m128i b)
{
	return _mm_cmpeq_epi32(a, b);
}

HOOKED __m128i vector_or(__m128i a, __m128i b)
{
	return _mm_or_si128(a, b);
}

HOOKED __m128i vector_subtract(__m128i a, __m128i b)
{
	return _mm_subs_epi8(a, b);
}

__attribute__((noinline, noclone, target("avx512vl,avx512bw"))) __m256i vector_broadcast(int value)
{
	return _mm256_set1_epi8((char)value);
}

__attribute__((target("avx2"))) static int wrong_in(int i)
{
	float value = (float)i;
	int bits, words[8] = {0}, wrong = 0;
	signed char bytes[16];

	memcpy(&bits, &value, sizeof(bits));
	wrong += vector_bits(value) != bits;
	vector_store(words, _mm256_set1_epi32(i));
	wrong += words[3] != i;
	_mm_storeu_si128((void *)words, vector_shuffle(_mm_setr_epi32(1, 2, 3, i)));
	wrong += words[0] != i;
	_mm_storeu_si128((void *)words, vector_equal(_mm_set1_epi32(i), _mm_set1_epi32(5)));
	wrong += words[0] != -(i == 5);
	_mm_storeu_si128((void *)words, vector_or(_mm_set1_epi32(i), _mm_set1_epi32(1024)));
	wrong += words[0] != (i | 1024);
	_mm_storeu_si128((void *)bytes,
			 vector_subtract(_mm_set1_epi8(-100), _mm_set1_epi8((char)(i % 50))));
	wrong += bytes[0] != (-100 - i % 50 < -128 ? -128 : -100 - i % 50);
	return wrong;
}

__attribute__((target("avx512vl,avx512bw"))) static int wrong_in_wide(int i)
{
	char bytes[32];

	_mm256_storeu_si256((void *)bytes, vector_broadcast(i % 100));
	return bytes[5] != i % 100;
}

int main(void)
{
	int wrong = 0;

	if (!__builtin_cpu_supports("avx2")) {
		puts("no AVX2 here");
		return 0;
	}
	for (int i = 1; i <= 1000; i++) {
		wrong += wrong_in(i);
		if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
			wrong += wrong_in_wide(i);
	}
	printf("1000 rounds, %d wrong\n", wrong);
	return wrong != 0;
}
