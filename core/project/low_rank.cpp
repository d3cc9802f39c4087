// SPDX-License-Identifier: Apache-2.0
#include "core/project/low_rank.hpp"

// Of Eigen only what is under the Mozilla Public License 2.0, and no threads beside the pool's.
#define EIGEN_MPL2_ONLY
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/QR>
#include <Eigen/SVD>

#include "core/common/error.hpp"

namespace magicube {
namespace {

using matrix = Eigen::MatrixXd;
using row_major = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using decomposition = Eigen::BDCSVD<matrix>;

decomposition decompose(const matrix& m) {
    decomposition found(m, Eigen::ComputeThinU | Eigen::ComputeThinV);
    require(found.info() == Eigen::Success, status::internal_error,
            "the singular value decomposition of a ", m.rows(), " x ", m.cols(),
            " block did not converge");
    return found;
}

// m = u diag(s) v^T with u of rows x kept, v of cols x kept, and all of s.
struct triplets {
    matrix u, v;
    Eigen::VectorXd s;
};

// Of a matrix that has no fewer rows than columns.
triplets tall_triplets(const matrix& m, Eigen::Index kept) {
    // A decomposition of the triangle costs less where rows are many.
    if (m.rows() < 2 * m.cols()) {
        const auto found = decompose(m);
        return {found.matrixU().leftCols(kept), found.matrixV().leftCols(kept),
                found.singularValues()};
    }
    const Eigen::HouseholderQR<matrix> qr(m);
    const matrix triangle = qr.matrixQR().topRows(m.cols()).triangularView<Eigen::Upper>();
    const auto found = decompose(triangle);
    matrix u = matrix::Zero(m.rows(), kept);
    u.topRows(m.cols()) = found.matrixU().leftCols(kept);
    u.applyOnTheLeft(qr.householderQ());
    return {u, found.matrixV().leftCols(kept), found.singularValues()};
}

}  // namespace

double best_low_rank(const double* block, int64_t rows, int64_t cols, int64_t rank, double* left,
                     double* right) {
    const Eigen::Map<const row_major> source(block, rows, cols);
    Eigen::Map<row_major> first(left, rows, rank);
    Eigen::Map<row_major> second(right, rank, cols);
    const Eigen::Index kept = std::min({rank, rows, cols});
    const bool tall = rows >= cols;
    auto found = tall ? tall_triplets(source, kept) : tall_triplets(source.transpose(), kept);
    if (!tall) found.u.swap(found.v);
    first.setZero();
    second.setZero();
    first.leftCols(kept) = found.u;
    second.topRows(kept) = found.s.head(kept).asDiagonal() * found.v.transpose();
    return found.s.tail(found.s.size() - kept).squaredNorm();
}

}  // namespace magicube
