// The kernels themselves. Each kernel_*.cpp includes this once, inside a namespace of its CPU and
// after simd.h; nothing here may use the standard library (see kernel.h).
#pragma once

constexpr int kPanel = kBlockVectors * kLanes;
constexpr int kWideRows = 8 * kBlockRows;  // that go through both products of the hidden layer
constexpr int kHeadVectors = kOracleHeadWidth / kLanes;
constexpr int kWidthVectors = kOracleWidth / kLanes;
constexpr int kAttendRows = 4, kAttendVectors = 2;  // queries and vectors of keys at a time
static_assert(kOracleWidth % kPanel == 0 && kOracleHeadWidth % kLanes == 0);

FLOTILLA_INLINE int padded_keys(int nodes) {
  constexpr int unit = kAttendVectors * kLanes;
  return (nodes + unit - 1) / unit * unit;
}

// Every output sums its products in the order of the inputs, whatever block it lies in.
template <int kRows, class Store>
FLOTILLA_INLINE void block(const float* x, int stride, const PackedMatrix& matrix, int panel,
                           int row, const Store& store_sum) {
  V sum[kRows][kBlockVectors] = {};
  const float* w = matrix.weights + (size_t)panel * matrix.inputs * kPanel;
  x += (size_t)row * stride;
  for (int k = 0; k < matrix.inputs; ++k, w += kPanel) {
    V b[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) b[v] = load(w + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V a = splat(x[(size_t)r * stride + k]);
      for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = fma(a, b[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kBlockVectors; ++v) {
      store_sum(row + r, panel * kPanel + v * kLanes, sum[r][v]);
    }
  }
}

template <int kRows, class Store>
FLOTILLA_INLINE void last_block(int rows, const float* x, int stride, const PackedMatrix& matrix,
                                int panel, int row, const Store& store_sum) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return block<kRows>(x, stride, matrix, panel, row, store_sum);
    last_block<kRows - 1>(rows, x, stride, matrix, panel, row, store_sum);
  }
}

// Calls store_sum(row, column, sums of kLanes columns). A panel of weights stays in the first cache
// while all rows pass by.
template <class Store>
FLOTILLA_INLINE void product(const float* x, int stride, int rows, const PackedMatrix& matrix,
                             const Store& store_sum) {
  for (int panel = 0; panel < matrix.outputs / kPanel; ++panel) {
    int row = 0;
    for (; row + kBlockRows <= rows; row += kBlockRows) {
      block<kBlockRows>(x, stride, matrix, panel, row, store_sum);
    }
    last_block<kBlockRows - 1>(rows - row, x, stride, matrix, panel, row, store_sum);
  }
}

FLOTILLA_INLINE float total(V v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
FLOTILLA_INLINE float largest(V v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  }
  return lanes[0];
}

// Turns scores into e^(score - largest) and returns the factor that makes their sum one.
FLOTILLA_INLINE float soften(float* scores, int keys, int padded) {
  for (int j = keys; j < padded; ++j) scores[j] = scores[0];
  V top = load(scores);
  for (int j = kLanes; j < padded; j += kLanes) top = max(top, load(scores + j));
  const V offset = splat(largest(top));
  for (int j = 0; j < padded; j += kLanes) store(scores + j, exp(load(scores + j) - offset));
  for (int j = keys; j < padded; ++j) scores[j] = 0;
  V sum = {};
  for (int j = 0; j < padded; j += kLanes) sum += load(scores + j);
  return 1 / total(sum);
}

// One head of one instance, kAttendRows queries at a time (the last ones again where they are
// fewer). `keys` is transposed: [head width][padded].
FLOTILLA_INLINE void attend_head(const float* qkv, int head, int nodes, const float* keys,
                                 float* out, float* scores) {
  constexpr int stride = 3 * kOracleWidth;
  const int padded = padded_keys(nodes);
  const float* values = qkv + 2 * kOracleWidth + head * kOracleHeadWidth;
  for (int first = 0; first < nodes; first += kAttendRows) {
    const float* query[kAttendRows];
    for (int r = 0; r < kAttendRows; ++r) {
      const int row = first + r < nodes ? first + r : nodes - 1;
      query[r] = qkv + (size_t)row * stride + head * kOracleHeadWidth;
    }
    for (int j = 0; j < padded; j += kAttendVectors * kLanes) {
      V sum[kAttendRows][kAttendVectors] = {};
      for (int d = 0; d < kOracleHeadWidth; ++d) {
        const float* key = keys + (size_t)d * padded + j;
        for (int v = 0; v < kAttendVectors; ++v) {
          const V k = load(key + v * kLanes);
          for (int r = 0; r < kAttendRows; ++r) sum[r][v] = fma(splat(query[r][d]), k, sum[r][v]);
        }
      }
      for (int r = 0; r < kAttendRows; ++r) {
        for (int v = 0; v < kAttendVectors; ++v) {
          store(scores + (size_t)r * padded + j + v * kLanes, sum[r][v]);
        }
      }
    }
    float factor[kAttendRows];
    for (int r = 0; r < kAttendRows; ++r)
      factor[r] = soften(scores + (size_t)r * padded, nodes, padded);
    V sum[kAttendRows][kHeadVectors] = {};
    for (int j = 0; j < nodes; ++j) {
      for (int v = 0; v < kHeadVectors; ++v) {
        const V value = load(values + (size_t)j * stride + v * kLanes);
        for (int r = 0; r < kAttendRows; ++r) {
          sum[r][v] = fma(splat(scores[(size_t)r * padded + j]), value, sum[r][v]);
        }
      }
    }
    for (int r = 0; r < kAttendRows && first + r < nodes; ++r) {
      float* to = out + (size_t)(first + r) * kOracleWidth + head * kOracleHeadWidth;
      for (int v = 0; v < kHeadVectors; ++v) store(to + v * kLanes, sum[r][v] * factor[r]);
    }
  }
}

FLOTILLA_INLINE void attend(const float* qkv, int nodes, float* out, float* work) {
  const int padded = padded_keys(nodes);
  float* keys = work;
  float* scores = keys + (size_t)kOracleHeadWidth * padded;
  for (int head = 0; head < kOracleHeads; ++head) {
    const float* from = qkv + kOracleWidth + head * kOracleHeadWidth;
    for (int j = 0; j < nodes; ++j) {
      for (int d = 0; d < kOracleHeadWidth; ++d) {
        keys[(size_t)d * padded + j] = from[(size_t)j * 3 * kOracleWidth + d];
      }
    }
    for (int d = 0; d < kOracleHeadWidth; ++d) {
      for (int j = nodes; j < padded; ++j) keys[(size_t)d * padded + j] = 0;
    }
    attend_head(qkv, head, nodes, keys, out, scores);
  }
}

FLOTILLA_INLINE void embed(const PackedNetwork& network, const Tile& tile, float* x) {
  const float* scalars = network.node_scalars;
  for (int row = 0; row < tile.begin[tile.instances]; ++row) {
    const float* cell = network.cells + (size_t)tile.cell[row] * kOracleWidth;
    for (int c = 0; c < kOracleWidth; c += kLanes) {
      V sum = load(cell + c);
      sum = fma(splat(tile.demand[row]), load(scalars + c), sum);
      sum = fma(splat(tile.early[row]), load(scalars + kOracleWidth + c), sum);
      sum = fma(splat(tile.late[row]), load(scalars + 2 * kOracleWidth + c), sum);
      store(x + (size_t)row * kOracleWidth + c, sum);
    }
  }
}

// A residual sum with the normaliser behind it, in place.
FLOTILLA_INLINE auto into_residual(float* x, const float* scale, const float* shift) {
  return [=](int row, int column, V sum) FLOTILLA_INLINE_LAMBDA {
    float* to = x + (size_t)row * kOracleWidth + column;
    store(to, fma(sum + load(to), load(scale + column), load(shift + column)));
  };
}

FLOTILLA_INLINE void feed_forward(const PackedLayer& layer, float* x, int rows, float* hidden) {
  for (int first = 0; first < rows; first += kWideRows) {
    const int count = rows - first < kWideRows ? rows - first : kWideRows;
    float* part = x + (size_t)first * kOracleWidth;
    product(part, kOracleWidth, count, layer.wide,
            [&](int row, int column, V sum) FLOTILLA_INLINE_LAMBDA {
              store(hidden + (size_t)row * kOracleHidden + column,
                    max(sum + load(layer.wide_bias + column), V{}));
            });
    product(hidden, kOracleHidden, count, layer.narrow,
            into_residual(part, layer.scale2, layer.shift2));
  }
}

FLOTILLA_INLINE void find_graph(const PackedNetwork& network, const float* x, int nodes,
                                float* graph) {
  float mean[kOracleWidth];
  for (int c = 0; c < kOracleWidth; c += kLanes) {
    V sum = {};
    for (int row = 0; row < nodes; ++row) sum += load(x + (size_t)row * kOracleWidth + c);
    store(mean + c, sum * (1.0f / (float)nodes));
  }
  product(mean, kOracleWidth, 1, network.graph,
          [&](int, int column, V sum) FLOTILLA_INLINE_LAMBDA { store(graph + column, sum); });
}

struct EncodeWork {
  EncodeWork(float* work, int rows)
      : x(work),
        qkv(x + (size_t)rows * kOracleWidth),
        heads(qkv + (size_t)rows * 3 * kOracleWidth),
        hidden(heads + (size_t)rows * kOracleWidth),
        attention(hidden + (size_t)kWideRows * kOracleHidden) {}
  float *x, *qkv, *heads, *hidden, *attention;
};

size_t work_size(int rows, int largest) {
  const size_t encode = (size_t)rows * 5 * kOracleWidth + (size_t)kWideRows * kOracleHidden +
                        (size_t)(kOracleHeadWidth + kAttendRows) * padded_keys(largest);
  const size_t score = (size_t)(largest + kLanes) * kOracleHeads * (kLanes + 1);
  return encode > score ? encode : score;
}

void encode(const PackedNetwork& network, const Tile& tile, float* work) {
  const int rows = tile.begin[tile.instances];
  const EncodeWork to(work, rows);
  embed(network, tile, to.x);
  for (const PackedLayer& layer : network.layers) {
    product(to.x, kOracleWidth, rows, layer.qkv,
            [&](int row, int column, V sum) FLOTILLA_INLINE_LAMBDA {
              store(to.qkv + (size_t)row * 3 * kOracleWidth + column,
                    sum + load(layer.qkv_bias + column));
            });
    for (int i = 0; i < tile.instances; ++i) {
      const size_t first = (size_t)tile.begin[i];
      attend(to.qkv + first * 3 * kOracleWidth, tile.begin[i + 1] - tile.begin[i],
             to.heads + first * kOracleWidth, to.attention);
    }
    product(to.heads, kOracleWidth, rows, layer.out,
            into_residual(to.x, layer.scale1, layer.shift1));
    feed_forward(layer, to.x, rows, to.hidden);
  }
  product(to.x, kOracleWidth, rows, network.cache,
          [&](int row, int column, V sum) FLOTILLA_INLINE_LAMBDA {
            store(tile.cache + (size_t)row * kCacheWidth + column, sum);
          });
  for (int i = 0; i < tile.instances; ++i) {
    const int first = tile.begin[i];
    find_graph(network, to.x + (size_t)first * kOracleWidth, tile.begin[i + 1] - first,
               tile.graph + (size_t)i * kOracleWidth);
  }
}

// out[i] = the sum over the lanes of t[i], for `count` of them; room for padding to kLanes.
FLOTILLA_INLINE void sum_lanes(const float* t, int count, float* out) {
  for (int first = 0; first < count; first += kLanes) {
    V part[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int from = first + i < count ? first + i : count - 1;
      part[i] = load(t + (size_t)from * kLanes);
    }
    store(out + first, lane_sums(part));
  }
}

// e[node][head] = attention of the query to the nodes' keys, not yet divided by `sum`.
FLOTILLA_INLINE void glance(const ScoreCall& call, const V (&query)[kWidthVectors], float* e,
                            float (&sum)[kOracleHeads], float* products) {
  for (int i = 0; i < call.count; ++i) {
    const float* key = call.cache + (size_t)call.nodes[i] * kCacheWidth;
    for (int h = 0; h < kOracleHeads; ++h) {
      V part = {};
      for (int v = 0; v < kHeadVectors; ++v) {
        const int at = h * kHeadVectors + v;
        part = fma(query[at], load(key + at * kLanes), part);
      }
      store(products + (size_t)(i * kOracleHeads + h) * kLanes, part);
    }
  }
  const int all = call.count * kOracleHeads;
  sum_lanes(products, all, e);
  float top[kOracleHeads];
  for (int h = 0; h < kOracleHeads; ++h) top[h] = e[h];
  for (int i = 1; i < call.count; ++i) {
    for (int h = 0; h < kOracleHeads; ++h) {
      const float score = e[i * kOracleHeads + h];
      top[h] = score > top[h] ? score : top[h];
    }
  }
  for (int i = 0; i < call.count; ++i) {
    for (int h = 0; h < kOracleHeads; ++h) e[i * kOracleHeads + h] -= top[h];
  }
  for (int i = 0; i < all; i += kLanes) store(e + i, exp(load(e + i)));
  for (int h = 0; h < kOracleHeads; ++h) sum[h] = 0;
  for (int i = 0; i < call.count; ++i) {
    for (int h = 0; h < kOracleHeads; ++h) sum[h] += e[i * kOracleHeads + h];
  }
}

void score(const PackedNetwork& network, const ScoreCall& call, float* work) {
  const float* own = call.cache + (size_t)call.current * kCacheWidth + 3 * kOracleWidth;
  V query[kWidthVectors];
  for (int v = 0; v < kWidthVectors; ++v) {
    query[v] = load(own + v * kLanes) + load(call.graph + v * kLanes);
    for (int s = 0; s < kOracleScalars; ++s) {
      const float* weights = network.context_scalars + s * kOracleWidth + v * kLanes;
      query[v] = fma(splat(call.scalars[s]), load(weights), query[v]);
    }
  }
  float* products = work;
  float* e = products + (size_t)call.count * kOracleHeads * kLanes;
  float sum[kOracleHeads];
  glance(call, query, e, sum, products);
  V glimpse[kWidthVectors] = {};
  for (int i = 0; i < call.count; ++i) {
    const float* value = call.cache + (size_t)call.nodes[i] * kCacheWidth + kOracleWidth;
    for (int v = 0; v < kWidthVectors; ++v) {
      const V weight = splat(e[i * kOracleHeads + v / kHeadVectors]);
      glimpse[v] = fma(weight, load(value + v * kLanes), glimpse[v]);
    }
  }
  for (int v = 0; v < kWidthVectors; ++v) glimpse[v] = glimpse[v] * (1 / sum[v / kHeadVectors]);
  for (int i = 0; i < call.count; ++i) {
    const float* key = call.cache + (size_t)call.nodes[i] * kCacheWidth + 2 * kOracleWidth;
    V part = {};
    for (int v = 0; v < kWidthVectors; ++v) part = fma(glimpse[v], load(key + v * kLanes), part);
    store(products + (size_t)i * kLanes, part);
  }
  sum_lanes(products, call.count, call.scores);
}
