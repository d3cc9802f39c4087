// SPDX-License-Identifier: Apache-2.0
// What the suites of projections share: matrices of fp64 and of fp32, and chains that own values.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/project/project.hpp"

namespace support {

struct wide {
    int64_t rows = 0, cols = 0;
    std::vector<double> values;

    wide(int64_t m, int64_t n) : rows(m), cols(n), values(static_cast<size_t>(m * n)) {}
    double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * cols + j)]; }
    double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * cols + j)]; }
};

inline wide normal(int64_t rows, int64_t cols, std::mt19937_64& random) {
    std::normal_distribution<double> distribution;
    wide result(rows, cols);
    for (double& value : result.values) value = distribution(random);
    return result;
}

inline wide times(const wide& a, const wide& b) {
    wide c(a.rows, b.cols);
    for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t l = 0; l < a.cols; ++l)
            for (int64_t j = 0; j < b.cols; ++j) c.at(i, j) += a.at(i, l) * b.at(l, j);
    return c;
}

inline wide sum(const wide& a, double factor, const wide& b) {
    wide c = a;
    for (size_t i = 0; i < c.values.size(); ++i) c.values[i] += factor * b.values[i];
    return c;
}

// The Frobenius norm, of columns times weights where there are any.
inline double norm(const wide& a, const std::vector<double>& weights = {}) {
    double square = 0;
    for (size_t i = 0; i < a.values.size(); ++i) {
        const double weight = weights.empty() ? 1 : weights[i % weights.size()];
        square += a.values[i] * weight * a.values[i] * weight;
    }
    return std::sqrt(square);
}

// Columns that are orthonormal, by Gram and Schmidt, twice.
inline wide orthonormal(int64_t rows, int64_t cols, std::mt19937_64& random) {
    wide q = normal(rows, cols, random);
    for (int round = 0; round < 2; ++round)
        for (int64_t j = 0; j < cols; ++j) {
            for (int64_t k = 0; k < j; ++k) {
                double dot = 0;
                for (int64_t i = 0; i < rows; ++i) dot += q.at(i, k) * q.at(i, j);
                for (int64_t i = 0; i < rows; ++i) q.at(i, j) -= dot * q.at(i, k);
            }
            double square = 0;
            for (int64_t i = 0; i < rows; ++i) square += q.at(i, j) * q.at(i, j);
            for (int64_t i = 0; i < rows; ++i) q.at(i, j) /= std::sqrt(square);
        }
    return q;
}

// A matrix of fp32, or of bytes, as the library sees it.
template <class T>
struct stored {
    int64_t rows, cols;
    std::vector<T> values;

    stored(int64_t m, int64_t n) : rows(m), cols(n), values(static_cast<size_t>(m * n)) {}
    explicit stored(const wide& from) : stored(from.rows, from.cols) {
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(from.values[i]);
    }
    magicube::dense_view view() {
        magicube::dense_view result;
        result.rows = rows;
        result.cols = cols;
        result.ld = cols;
        result.values = values.data();
        result.type = sizeof(T) == 1 ? magicube::dtype::uint8 : magicube::dtype::fp32;
        return result;
    }
    wide numbers() const {
        wide result(rows, cols);
        for (size_t i = 0; i < values.size(); ++i) result.values[i] = values[i];
        return result;
    }
};

using shapes = std::vector<magicube::kronecker_shape>;

struct chain_values {
    shapes factors;
    std::vector<std::vector<float>> values;

    explicit chain_values(const shapes& list) : factors(list) {
        for (const auto& shape : list)
            values.emplace_back(static_cast<size_t>(shape.value_count()), NAN);
    }
    void fill(std::mt19937_64& random) {
        std::normal_distribution<float> distribution;
        for (auto& list : values)
            for (float& value : list) value = distribution(random);
    }
    magicube::kronecker_view view() {
        magicube::kronecker_view result;
        for (size_t i = 0; i < factors.size(); ++i)
            result.factors.emplace_back(factors[i], values[i].data());
        result.chain = true;
        magicube::validate_sizes(result);
        return result;
    }
    // By the definition of a factor.
    wide factor(size_t index) const {
        const auto& k = factors[index];
        wide result(k.rows(), k.cols());
        size_t at = 0;
        for (int64_t i = 0; i < k.a; ++i)
            for (int64_t j = 0; j < k.b; ++j)
                for (int64_t x = 0; x < k.c; ++x)
                    for (int64_t l = 0; l < k.d; ++l)
                        result.at((i * k.b + j) * k.d + l, (i * k.c + x) * k.d + l) =
                            values[index][at++];
        return result;
    }
    wide product() const {
        wide result = factor(0);
        for (size_t i = 1; i < factors.size(); ++i) result = times(result, factor(i));
        return result;
    }
};

// Whether body() throws an error of that status whose message contains the text.
template <class Body>
bool refuses(const Body& body, const std::string& part,
             magicube::status code = magicube::status::invalid_value) {
    try {
        body();
    } catch (const magicube::error& e) {
        if (e.code() == code && std::string(e.what()).find(part) != std::string::npos) return true;
        MESSAGE("the message is: " << std::string(e.what()));
        return false;
    }
    MESSAGE("nothing was thrown");
    return false;
}

}  // namespace support
