// The kernels themselves. Each kernel_*.cpp includes this once, inside a namespace of its CPU and
// after nn/simd, with Products and kWideRows, how many rows go through both products of the hidden
// layer together; nothing here may use the standard library (see kernel.h).
#pragma once

typedef Products::In In;
constexpr int kHeadVectors = kOracleHeadWidth / kLanes;
constexpr int kWidthVectors = kOracleWidth / kLanes;
// Of the attention, at a time: queries, keys they are matched with, queries values are mixed for.
constexpr int kQueryVectors = 2, kQueries = kQueryVectors * kLanes;
constexpr int kMatched = 4, kMixed = 16 / kHeadVectors;
static_assert(kOracleHeadWidth % kLanes == 0 && kWideRows % Products::kRowsAtOnce == 0 &&
              kQueries % kMixed == 0);
static_assert(kOracleWidth % Products::kInputUnit == 0 &&
              kOracleHidden % Products::kInputUnit == 0);
static_assert(kOracleWidth % Products::kOutputUnit == 0 &&
              kOracleHidden % Products::kOutputUnit == 0);

// out[d][i] = number d of query `first` + i, the last one again where there are no more.
FLOTILLA_INLINE void turn_queries(const float* queries, int first, int nodes, float* out) {
  for (int i = 0; i < kQueries; i += kLanes) {
    for (int d = 0; d < kOracleHeadWidth; d += kLanes) {
      V t[kLanes];
      for (int r = 0; r < kLanes; ++r) {
        const int row = first + i + r < nodes ? first + i + r : nodes - 1;
        t[r] = load(queries + (size_t)row * 3 * kOracleWidth + d);
      }
      transpose(t);
      for (int r = 0; r < kLanes; ++r) store(out + (d + r) * kQueries + i, t[r]);
    }
  }
}

// scores[j][i] = query i times key `first` + j; `top` rises to the largest of each query.
template <int kKeys>
FLOTILLA_INLINE void match(const float* queries, const float* keys, int first, float* scores,
                           V (&top)[kQueryVectors]) {
  V sum[kKeys][kQueryVectors] = {};
  keys += (size_t)first * 3 * kOracleWidth;
  for (int d = 0; d < kOracleHeadWidth; ++d) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const V query = load(queries + d * kQueries + v * kLanes);
      for (int j = 0; j < kKeys; ++j) {
        sum[j][v] = fma(splat(keys[(size_t)j * 3 * kOracleWidth + d]), query, sum[j][v]);
      }
    }
  }
  for (int j = 0; j < kKeys; ++j) {
    for (int v = 0; v < kQueryVectors; ++v) {
      store(scores + (size_t)(first + j) * kQueries + v * kLanes, sum[j][v]);
      top[v] = max(top[v], sum[j][v]);
    }
  }
}

// Turns scores into e^(score - top) and finds the factors that make their sums one.
FLOTILLA_INLINE void soften(float* scores, int keys, const V (&top)[kQueryVectors],
                            float (&factors)[kQueries]) {
  V sum[kQueryVectors] = {};
  for (int j = 0; j < keys; ++j, scores += kQueries) {
    for (int v = 0; v < kQueryVectors; ++v) {
      const V e = exp(load(scores + v * kLanes) - top[v]);
      store(scores + v * kLanes, e);
      sum[v] += e;
    }
  }
  for (int v = 0; v < kQueryVectors; ++v) store(factors + v * kLanes, 1.0f / sum[v]);
}

// The values, weighted, for kMixed queries.
FLOTILLA_INLINE void mix(const float* weights, const float* values, int keys, const float* factors,
                         int count, In* out) {
  V sum[kMixed][kHeadVectors] = {};
  for (int j = 0; j < keys; ++j, weights += kQueries, values += 3 * kOracleWidth) {
    for (int v = 0; v < kHeadVectors; ++v) {
      const V value = load(values + v * kLanes);
      for (int r = 0; r < kMixed; ++r) sum[r][v] = fma(splat(weights[r]), value, sum[r][v]);
    }
  }
  for (int r = 0; r < kMixed; ++r) {
    if (r >= count) return;
    for (int v = 0; v < kHeadVectors; ++v) {
      Products::put(out + (size_t)r * kOracleWidth + v * kLanes, sum[r][v] * factors[r]);
    }
  }
}

// One instance, kQueries of a head at a time, which lie in the lanes of vectors.
FLOTILLA_INLINE void attend(const float* qkv, int nodes, In* out, float* work) {
  float* queries = work;
  float* scores = queries + kOracleHeadWidth * kQueries;
  for (int head = 0; head < kOracleHeads; ++head) {
    const float* own = qkv + head * kOracleHeadWidth;
    for (int first = 0; first < nodes; first += kQueries) {
      turn_queries(own, first, nodes, queries);
      V top[kQueryVectors];
      for (int v = 0; v < kQueryVectors; ++v) top[v] = splat(-1e30f);
      int j = 0;
      for (; j + kMatched <= nodes; j += kMatched) {
        match<kMatched>(queries, own + kOracleWidth, j, scores, top);
      }
      for (; j < nodes; ++j) match<1>(queries, own + kOracleWidth, j, scores, top);
      float factors[kQueries];
      soften(scores, nodes, top, factors);
      for (int i = 0; i < kQueries && first + i < nodes; i += kMixed) {
        mix(scores + i, own + 2 * kOracleWidth, nodes, factors + i, nodes - first - i,
            out + (size_t)(first + i) * kOracleWidth + head * kOracleHeadWidth);
      }
    }
  }
}

// What layers add to, and the same as products take it: one memory where they take floats.
struct Stream {
  float* x;
  In* in;
  FLOTILLA_INLINE void set(long row, long column, V v) const {
    const size_t at = (size_t)row * kOracleWidth + column;
    store(x + at, v);
    if constexpr (sizeof(In) != sizeof(float)) Products::put(in + at, v);
  }
  FLOTILLA_INLINE Stream from(int row) const {
    return {x + (size_t)row * kOracleWidth, in + (size_t)row * kOracleWidth};
  }
};

FLOTILLA_INLINE void embed(const PackedNetwork& network, const Tile& tile, const Stream& stream) {
  const float* scalars = network.node_scalars;
  for (int row = 0; row < tile.begin[tile.instances]; ++row) {
    const float* cell = network.cells + (size_t)tile.cell[row] * kOracleWidth;
    for (int c = 0; c < kOracleWidth; c += kLanes) {
      V sum = load(cell + c);
      sum = fma(splat(tile.demand[row]), load(scalars + c), sum);
      sum = fma(splat(tile.early[row]), load(scalars + kOracleWidth + c), sum);
      sum = fma(splat(tile.late[row]), load(scalars + 2 * kOracleWidth + c), sum);
      stream.set(row, c, sum);
    }
  }
}

// A residual sum with the normaliser behind it, in place.
FLOTILLA_INLINE auto into_residual(const Stream& stream, const float* scale, const float* shift) {
  return [=](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
    const V old = load(stream.x + (size_t)row * kOracleWidth + column);
    stream.set(row, column, fma(sum + old, load(scale + column), load(shift + column)));
  };
}

FLOTILLA_INLINE void feed_forward(const PackedLayer& layer, const Stream& stream, int rows,
                                  In* hidden) {
  for (int first = 0; first < rows; first += kWideRows) {
    const int count = rows - first < kWideRows ? rows - first : kWideRows;
    const Stream part = stream.from(first);
    Products::multiply(part.in, kOracleWidth, count, layer.wide, FromZero(),
                       [&](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
                         Products::put(hidden + (size_t)row * kOracleHidden + column,
                                       max(sum + load(layer.wide_bias + column), V{}));
                       });
    Products::multiply(hidden, kOracleHidden, count, layer.narrow, FromZero(),
                       into_residual(part, layer.scale2, layer.shift2));
  }
}

// The mean over the nodes of every instance, as the decoder wants it.
FLOTILLA_INLINE void find_graphs(const PackedNetwork& network, const Tile& tile, const float* x,
                                 In* means) {
  for (int i = 0; i < tile.instances; ++i) {
    const int begin = tile.begin[i], end = tile.begin[i + 1];
    for (int c = 0; c < kOracleWidth; c += kLanes) {
      V sum = {};
      for (int row = begin; row < end; ++row) sum += load(x + (size_t)row * kOracleWidth + c);
      Products::put(means + (size_t)i * kOracleWidth + c, sum * (1.0f / (float)(end - begin)));
    }
  }
  Products::multiply(means, kOracleWidth, tile.instances, network.graph, FromZero(),
                     [&](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
                       store(tile.graph + (size_t)row * kOracleWidth + column, sum);
                     });
}

FLOTILLA_INLINE size_t padded_rows(int rows) {
  constexpr int kUnit = Products::kRowsAtOnce;
  return (size_t)(rows + kUnit - 1) / kUnit * kUnit;
}
// Floats that hold so many In.
FLOTILLA_INLINE size_t floats_for(size_t count) { return count * sizeof(In) / sizeof(float); }

// Where everything lies in the work memory of a tile, in floats.
struct EncodeLayout {
  EncodeLayout(int rows, int largest) {
    const size_t padded = padded_rows(rows);
    const auto take = [this](size_t floats) {
      const size_t at = size;
      size += floats;
      return at;
    };
    x = take(padded * kOracleWidth);
    in = sizeof(In) == sizeof(float) ? x : take(floats_for(padded * kOracleWidth));
    qkv = take(padded * 3 * kOracleWidth);
    heads = take(floats_for(padded * kOracleWidth));
    hidden = take(floats_for((size_t)kWideRows * kOracleHidden));
    attention = take((size_t)(kOracleHeadWidth + largest) * kQueries);
  }
  size_t x, in, qkv, heads, hidden, attention, size = 0;
};

size_t work_size(int rows, int largest) {
  const size_t encode = EncodeLayout(rows, largest).size;
  const size_t score = (size_t)(largest + kLanes) * kOracleHeads * (kLanes + 1);
  return encode > score ? encode : score;
}

void encode(const PackedNetwork& network, const Tile& tile, float* work) {
  const int rows = tile.begin[tile.instances];
  int largest = 0;
  for (int i = 0; i < tile.instances; ++i) {
    const int nodes = tile.begin[i + 1] - tile.begin[i];
    largest = nodes > largest ? nodes : largest;
  }
  const EncodeLayout at(rows, largest);
  const Stream stream = {work + at.x, (In*)(work + at.in)};
  float* qkv = work + at.qkv;
  In* heads = (In*)(work + at.heads);
  Products::begin();
  embed(network, tile, stream);
  for (const PackedLayer& layer : network.layers) {
    Products::multiply(stream.in, kOracleWidth, rows, layer.qkv, FromZero(),
                       [&](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
                         store(qkv + (size_t)row * 3 * kOracleWidth + column,
                               sum + load(layer.qkv_bias + column));
                       });
    for (int i = 0; i < tile.instances; ++i) {
      const size_t first = (size_t)tile.begin[i];
      attend(qkv + first * 3 * kOracleWidth, tile.begin[i + 1] - tile.begin[i],
             heads + first * kOracleWidth, work + at.attention);
    }
    Products::multiply(heads, kOracleWidth, rows, layer.out, FromZero(),
                       into_residual(stream, layer.scale1, layer.shift1));
    feed_forward(layer, stream, rows, (In*)(work + at.hidden));
  }
  Products::multiply(stream.in, kOracleWidth, rows, network.cache, FromZero(),
                     [&](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
                       store(tile.cache + (size_t)row * kCacheWidth + column, sum);
                     });
  find_graphs(network, tile, stream.x, heads);
  Products::end();
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

constexpr OracleKernels kernels_of(const char* name) {
  return {name, Products::pack, work_size, encode, score};
}
