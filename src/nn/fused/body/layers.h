// Hidden layers: their products with the rows of a tile, forwards and backwards, and what those
// read of the weights. Everything above them is a template of the precision they work in.
// Part of kernel_body.h.
#pragma once

template <bool kRelu>
FLOTILLA_INLINE V activate(V x) {
  if constexpr (kRelu) return max(x, V{});
  return tanh(x);
}

// Of the activation, from its result.
template <bool kRelu>
FLOTILLA_INLINE V slope(V h) {
  if constexpr (kRelu) return h > V{} ? splat(1) : V{};
  return fma(-h, h, splat(1));
}

// Where sums of products go, in matrices of so many columns.
template <bool kRelu>
FLOTILLA_INLINE auto into_activations(float* h, long width) {
  return [=](long row, long column, V sum)
             FLOTILLA_INLINE_LAMBDA { store(h + row * width + column, activate<kRelu>(sum)); };
}
template <bool kRelu>
FLOTILLA_INLINE auto into_slopes(const float* h, float* d, long width) {
  return [=](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
    const long at = row * width + column;
    store(d + at, sum * slope<kRelu>(load(h + at)));
  };
}

// target[rows][columns] += left * right, where columns are padded; begins: = left * right
template <class Factors>
void add_product(int rows, int columns, int depth, Factors left, Right right, float* target,
                 bool begins = false) {
  product<kPad>(rows, columns, depth, left, right, FromRows{begins ? nullptr : target, columns},
                IntoRows{target, columns});
}

// Calls each(first, count) for groups of `most` that together are all.
template <class Each>
FLOTILLA_INLINE void in_groups(int all, int most, Each each) {
  for (int first = 0; first < all; first += most) {
    each(first, all - first < most ? all - first : most);
  }
}

void clear(float* numbers, int count) {
  __builtin_memset(numbers, 0, static_cast<size_t>(count) * sizeof(float));
}

void add_column_sums(const float* d, int rows, int columns, float* target) {
  for (int column = 0; column < columns; column += kLanes) {
    V sum = load(target + column);
    for (int r = 0; r < rows; ++r) sum = sum + load(d + r * columns + column);
    store(target + column, sum);
  }
}

// A matrix of DenseRows, and in it the place of the call's first row.
FLOTILLA_INLINE float* matrix_at(const DenseRows& rows, size_t place) {
  return rows.numbers + static_cast<size_t>(rows.capacity) * place;
}
FLOTILLA_INLINE float* rows_at(const DenseRows& rows, size_t place, long width) {
  return matrix_at(rows, place) + rows.first * width;
}

// The rows of a tile, of which `from` holds one behind the other.
void leave_rows(const DenseRows& to, size_t place, const float* from, long width, int rows) {
  float* at = rows_at(to, place, width);
  const auto bytes = [=](int count) { return static_cast<size_t>(count * width) * sizeof(float); };
  __builtin_memcpy(at, from, bytes(rows));
  __builtin_memset(at + rows * width, 0, bytes(to.count - rows));
}

// Of a torso in front of the layers: convolve.h.
struct Fp32Convolutions;
template <class Products>
struct Bf16Convolutions;

// Factors of 24 significant bits.
struct Fp32Layers {
  typedef Packed<kPad> Matrix;
  typedef Fp32Convolutions Convolutions;
  static constexpr int kRowUnit = 1;  // rows come in multiples of this

  static FLOTILLA_INLINE void begin() {}
  static FLOTILLA_INLINE void end() {}

  // h = activate(x * W + bias)
  template <bool kRelu>
  static void forward(const Network& net, const Layer& layer, const float* x, long x_row, int rows,
                      float* work) {
    Matrix::multiply(rows, layer.out, layer.in, Left{x, x_row, 1}, net.derived + layer.packed,
                     FromBias{net.params + layer.bias},
                     into_activations<kRelu>(work + layer.work, layer.out));
  }

  // d_below = (d * W^T) * slope(h_below)
  template <bool kRelu>
  static void backward(const Network& net, const Layer& layer, const float* d, int rows,
                       const float* h_below, float* d_below, float*) {
    Matrix::multiply(rows, layer.in, layer.out, Left{d, layer.out, 1},
                     net.derived + layer.transposed, FromZero(),
                     into_slopes<kRelu>(h_below, d_below, layer.in));
  }

  // d_x += d * W^T
  static void add_input_gradient(const Network& net, const Layer& layer, const float* d, int rows,
                                 float* d_x, long x_row, float*) {
    Matrix::multiply(rows, layer.in, layer.out, Left{d, layer.out, 1},
                     net.derived + layer.transposed, FromRows{d_x, x_row}, IntoRows{d_x, x_row});
  }

  // gradient += x^T * d; begins: = x^T * d
  static void add_gradient(const Network&, const Layer& layer, const float* x, long x_row,
                           const float* d, int rows, float* gradient, bool begins, float*) {
    add_product(layer.in, layer.out, rows, Left{x, 1, x_row}, {d, layer.out}, gradient, begins);
  }

  // As dense.h: what a tile leaves, and the gradient of a matrix' rows from `first` on.
  static void leave_input(const DenseRows& to, const Layer& layer, const float* x, long x_row,
                          int rows) {
    leave_rows(to, layer.dense_in, x, x_row, rows);
  }
  static void leave_gradient(const Network&, const DenseRows& to, const Layer& layer,
                             const float* d, int rows, float*) {
    leave_rows(to, layer.dense_d, d, layer.out, rows);
  }
  static void collect(const DenseRows& dense, const Layer& layer, long x_row, int first, int rows,
                      float* gradient, bool begins) {
    const float* x = rows_at(dense, layer.dense_in, x_row) + first;
    add_product(rows, layer.out, dense.count, Left{x, 1, x_row},
                {rows_at(dense, layer.dense_d, layer.out), layer.out}, gradient, begins);
  }

  // Of either matrix the columns of a part, see Layer::derived_parts().
  static void derive(const Layer& layer, int part, bool backwards, const float* params,
                     float* derived) {
    static_assert(kDerivedColumns % Matrix::kWidest == 0);
    const float* weight = params + layer.weight;
    const int first = part * kDerivedColumns, end = first + kDerivedColumns;
    Matrix::pack(weight, layer.out, layer.in, end < layer.out ? end : layer.out,
                 derived + layer.packed, first);
    if (!backwards) return;
    Matrix::pack_transposed(weight, end < layer.in ? end : layer.in, layer.out,
                            derived + layer.transposed, first);
  }
};

// Left factors as the products of nn/simd want them that are given.
template <class Products>
struct LeftFactors {
  typedef typename Products::In In;

  // to[rows][to_width], with zeros behind the width.
  static const In* rounded(const float* x, long x_row, int rows, int width, int to_width,
                           float* to) {
    In* in = (In*)to;
    for (int row = 0; row < rows; ++row) {
      for (int c = 0; c < to_width; c += kLanes, in += kLanes) {
        Products::put(in, c < width ? load(x + row * x_row + c) : V{});
      }
    }
    return (const In*)to;
  }

  // to[width][depth]: rows become columns, with zeros behind them.
  static const In* turned(const float* x, long x_row, int rows, int width, int depth, float* to) {
    turn(x, x_row, rows, width, depth, (In*)to, depth);
    return (const In*)to;
  }

  // The same in lines of `line`.
  static void turn(const float* x, long x_row, int rows, int width, int depth, In* to, long line) {
    for (int first = 0; first < depth; first += kLanes) {
      for (int c = 0; c < width; c += kLanes) {
        V t[kLanes];
        for (int r = 0; r < kLanes; ++r) {
          t[r] = first + r < rows ? load(x + (first + r) * x_row + c) : V{};
        }
        transpose(t);
        for (int i = 0; i < kLanes; ++i) Products::put(to + (c + i) * line + first, t[i]);
      }
    }
  }
};

// Factors that are rounded to bfloat16, in the products of nn/simd that are given; sums, biases and
// all that comes of them have 24 bits.
template <class Products>
struct Bf16Layers : LeftFactors<Products> {
  using typename LeftFactors<Products>::In;
  using LeftFactors<Products>::rounded, LeftFactors<Products>::turned, LeftFactors<Products>::turn;
  typedef Bf16Convolutions<Products> Convolutions;
  static constexpr int kRowUnit = kLanes;
  static_assert(kTile % kBf16Pad == 0 && kBf16Pad % Products::kInputUnit == 0 &&
                kBf16Pad % Products::kOutputUnit == 0 && kLanes % Products::kRowsAtOnce == 0);

  static FLOTILLA_INLINE void begin() { Products::begin(); }
  static FLOTILLA_INLINE void end() { Products::end(); }

  template <bool kRelu>
  static void forward(const Network& net, const Layer& layer, const float* x, long x_row, int rows,
                      float* work) {
    const In* in = rounded(x, x_row, rows, layer.in, layer.in, work + net.plan->work_rounded);
    Products::multiply(in, layer.in, rows, {layer.in, layer.out, net.derived + layer.packed},
                       FromBias{net.params + layer.bias},
                       into_activations<kRelu>(work + layer.work, layer.out));
  }

  template <bool kRelu>
  static void backward(const Network& net, const Layer& layer, const float* d, int rows,
                       const float* h_below, float* d_below, float* work) {
    const In* in = rounded(d, layer.out, rows, layer.out, layer.out, work + net.plan->work_rounded);
    Products::multiply(in, layer.out, rows, {layer.out, layer.in, net.derived + layer.transposed},
                       FromZero(), into_slopes<kRelu>(h_below, d_below, layer.in));
  }

  static void add_input_gradient(const Network& net, const Layer& layer, const float* d, int rows,
                                 float* d_x, long x_row, float* work) {
    const In* in = rounded(d, layer.out, rows, layer.out, layer.out, work + net.plan->work_rounded);
    Products::multiply(in, layer.out, rows, {layer.out, layer.in, net.derived + layer.transposed},
                       FromRows{d_x, x_row}, IntoRows{d_x, x_row});
  }

  static void add_gradient(const Network& net, const Layer& layer, const float* x, long x_row,
                           const float* d, int rows, float* gradient, bool begins, float* work) {
    const int depth = padded(rows, Products::kInputUnit);
    const In* in = turned(x, x_row, rows, layer.in, depth, work + net.plan->work_rounded);
    float* right = work + net.plan->work_packed;
    Products::pack_rows(d, rows, depth, layer.out, right, 0, layer.out);
    Products::multiply(in, depth, layer.in, {depth, layer.out, right},
                       FromRows{begins ? nullptr : gradient, layer.out},
                       IntoRows{gradient, layer.out});
  }

  // Of the left factor, [in][capacity], the columns of a tile.
  static void leave_input(const DenseRows& to, const Layer& layer, const float* x, long x_row,
                          int rows) {
    In* in = (In*)matrix_at(to, layer.dense_in);
    turn(x, x_row, rows, layer.in, to.count, in + to.first, to.capacity);
  }
  // The bias has the gradient as it is.
  static void leave_gradient(const Network& net, const DenseRows& to, const Layer& layer,
                             const float* d, int rows, float* work) {
    leave_rows(to, layer.dense_d, d, layer.out, rows);
    const float* all = rows_at(to, layer.dense_d, layer.out);
    const In* in =
        rounded(all, layer.out, to.count, layer.out, layer.out, work + net.plan->work_rounded);
    Products::pack_inputs(in, to.count, layer.out, to.first, to.capacity,
                          matrix_at(to, layer.dense_right));
  }
  // REQUIRES: all of the matrices.
  static void collect(const DenseRows& dense, const Layer& layer, long, int first, int rows,
                      float* gradient, bool begins) {
    const In* x = (const In*)matrix_at(dense, layer.dense_in);
    Products::multiply(x + static_cast<long>(first) * dense.capacity, dense.capacity, rows,
                       {dense.capacity, layer.out, matrix_at(dense, layer.dense_right)},
                       FromRows{begins ? nullptr : gradient, layer.out},
                       IntoRows{gradient, layer.out});
  }

  static void derive(const Layer& layer, int part, bool backwards, const float* params,
                     float* derived) {
    static_assert(kDerivedColumns % kBf16Pad == 0);
    const float* weight = params + layer.weight;
    const int first = part * kDerivedColumns, end = first + kDerivedColumns;
    Products::pack_rows(weight, layer.in, layer.in, layer.out, derived + layer.packed, first,
                        end < layer.out ? end : layer.out);
    if (!backwards) return;
    Products::pack(weight, layer.in, layer.out, derived + layer.transposed, first,
                   end < layer.in ? end : layer.in);
  }
};
