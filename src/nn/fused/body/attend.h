// Attention over groups: the steps of nn/attention.h over the tokens of a tile, forwards and
// backwards. Widths are whole vectors, but for those of observations.
// Part of kernel_body.h.
#pragma once

struct TokenRoom {
  const Network& net;
  float* work;
  int observations;

  int rows(const TokenPlace& tokens) const { return observations * tokens.count; }
  float* at(const TokenPlace& tokens) const { return work + tokens.at; }
  float* gradient(const TokenPlace& tokens) const { return work + tokens.gradient; }
};

// Clears what a relu has cut.
void cut_gradient(const TokenRoom& room, const TokenPlace& tokens) {
  for (int row = 0; row < room.rows(tokens); ++row) {
    const float* y = room.at(tokens) + row * tokens.stride;
    float* d = room.gradient(tokens) + row * tokens.stride;
    for (int c = 0; c < tokens.width; c += kLanes) {
      store(d + c, load(y + c) > V{} ? load(d + c) : V{});
    }
  }
}

struct TokenLinear {
  typedef Packed<kPad> Matrix;

  static void forward(const TokenRoom& room, const TokenLayer& layer) {
    const TokenPlace &in = layer.in, &out = layer.out;
    const float* added = layer.has_added ? room.at(layer.added) : nullptr;
    float* y = room.at(out);
    const long y_row = out.stride, added_row = layer.added.stride;
    const bool relu = layer.relu;
    Matrix::multiply(room.rows(in), out.width, in.width, Left{room.at(in), in.stride, 1},
                     room.net.derived + layer.packed, FromBias{room.net.params + layer.bias},
                     [=](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
                       if (added != nullptr) sum = sum + load(added + row * added_row + column);
                       store(y + row * y_row + column, relu ? max(sum, V{}) : sum);
                     });
  }

  static void backward(const TokenRoom& room, const TokenLayer& layer, float* gradient) {
    const TokenPlace &in = layer.in, &out = layer.out;
    const int rows = room.rows(in);
    if (layer.relu) cut_gradient(room, out);
    if (layer.has_added) hand_on(room, layer);
    const float* d = room.gradient(out);
    float *packed = room.work + room.net.plan->work_packed, *weights = gradient + layer.weight;
    Matrix::pack(d, out.stride, rows, out.width, packed);
    Matrix::multiply(in.width, out.width, rows, Left{room.at(in), 1, in.stride}, packed,
                     FromRows{weights, out.width}, IntoRows{weights, out.width});
    for (int c = 0; c < out.width; c += kLanes) {
      V sum = load(gradient + layer.bias + c);
      for (int row = 0; row < rows; ++row) sum = sum + load(d + row * out.stride + c);
      store(gradient + layer.bias + c, sum);
    }
    if (layer.is_first) return;
    float* d_in = room.gradient(in);
    const long d_in_row = in.stride;
    const bool adds = layer.adds_to_in;
    Matrix::multiply(
        rows, in.width, out.width, Left{d, out.stride, 1}, room.net.derived + layer.transposed,
        [=](long row, long column)
            FLOTILLA_INLINE_LAMBDA { return adds ? load(d_in + row * d_in_row + column) : V{}; },
        IntoRows{d_in, d_in_row});
  }

  static void derive(const TokenLayer& layer, const float* params, float* derived) {
    const float* weight = params + layer.weight;
    Matrix::pack(weight, layer.in.width, layer.out.width, derived + layer.packed);
    if (layer.is_first) return;
    Matrix::pack_transposed(weight, layer.in.width, layer.out.width, derived + layer.transposed);
  }

 private:
  // What was added gets the same gradient as the sum.
  static void hand_on(const TokenRoom& room, const TokenLayer& layer) {
    for (int row = 0; row < room.rows(layer.out); ++row) {
      const float* from = room.gradient(layer.out) + row * layer.out.stride;
      float* to = room.gradient(layer.added) + row * layer.added.stride;
      for (int c = 0; c < layer.out.width; c += kLanes) {
        store(to + c, layer.adds_to_added ? load(to + c) + load(from + c) : load(from + c));
      }
    }
  }
};

FLOTILLA_INLINE float total(V v) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += v[lane];
  return sum;
}

struct TokenNorm {
  static void forward(const TokenRoom& room, const TokenLayer& layer) {
    constexpr float kEpsilon = 1e-5f;  // as in nn/attention.h
    const TokenPlace &in = layer.in, &out = layer.out;
    const float *scale = room.net.params + layer.weight, *shift = room.net.params + layer.bias;
    const float share = 1.0f / static_cast<float>(in.width);
    for (int row = 0; row < room.rows(in); ++row) {
      const float* x = room.at(in) + row * in.stride;
      float* y = room.at(out) + row * out.stride;
      float* kept = room.work + layer.kept + 2 * row;
      V sum = V{}, squares = V{};
      for (int c = 0; c < in.width; c += kLanes) sum = sum + load(x + c);
      const float mean = total(sum) * share;
      for (int c = 0; c < in.width; c += kLanes) {
        const V z = load(x + c) - mean;
        squares = fma(z, z, squares);
      }
      const float inverse = 1.0f / __builtin_sqrtf(total(squares) * share + kEpsilon);
      kept[0] = mean;
      kept[1] = inverse;
      for (int c = 0; c < in.width; c += kLanes) {
        const V sums = fma((load(x + c) - mean) * inverse, load(scale + c), load(shift + c));
        store(y + c, layer.relu ? max(sums, V{}) : sums);
      }
    }
  }

  static void backward(const TokenRoom& room, const TokenLayer& layer, float* gradient) {
    const TokenPlace &in = layer.in, &out = layer.out;
    if (layer.relu) cut_gradient(room, out);
    const float* scale = room.net.params + layer.weight;
    float *d_scale = gradient + layer.weight, *d_shift = gradient + layer.bias;
    const float share = 1.0f / static_cast<float>(in.width);
    for (int row = 0; row < room.rows(in); ++row) {
      const float *x = room.at(in) + row * in.stride, *d = room.gradient(out) + row * out.stride;
      const float* kept = room.work + layer.kept + 2 * row;
      const float mean = kept[0], inverse = kept[1];
      float* d_x = room.gradient(in) + row * in.stride;
      V sum = V{}, with_z = V{};
      for (int c = 0; c < in.width; c += kLanes) {
        const V z = (load(x + c) - mean) * inverse, d_y = load(d + c), d_z = d_y * load(scale + c);
        store(d_scale + c, fma(d_y, z, load(d_scale + c)));
        store(d_shift + c, load(d_shift + c) + d_y);
        sum = sum + d_z;
        with_z = fma(d_z, z, with_z);
      }
      const V mean_d = splat(total(sum) * share), mean_with_z = splat(total(with_z) * share);
      for (int c = 0; c < in.width; c += kLanes) {
        const V z = (load(x + c) - mean) * inverse, d_z = load(d + c) * load(scale + c);
        store(d_x + c, (d_z - mean_d - z * mean_with_z) * inverse);
      }
    }
  }
};

// Of one observation and one head: queries, keys and values of `width` numbers in tokens of `row`.
struct TokenAttend {
  static void forward(const TokenRoom& room, const TokenLayer& layer) {
    each_head(room, layer, [&](const View& v, float* shares, long to) {
      float* out = room.at(layer.out) + to;
      for (int i = 0; i < v.count; ++i, shares += padded(v.count, kPad)) {
        v.products(v.query(i), v.key(0), v.scale, shares);
        v.softmax(shares);
        v.mix(shares, v.value(0), v.row, out + i * layer.out.stride);
      }
    });
  }

  static void backward(const TokenRoom& room, const TokenLayer& layer) {
    const TokenPlace& in = layer.in;
    __builtin_memset(room.gradient(in), 0,
                     static_cast<size_t>(room.rows(in) * in.stride) * sizeof(float));
    alignas(64) float by_share[kMostTokens];
    each_head(room, layer, [&](const View& v, const float* shares, long to) {
      const float* d_out = room.gradient(layer.out) + to;
      float* d_query = room.gradient(in) + (v.query(0) - room.at(in));
      float *d_key = d_query + (v.key(0) - v.query(0)), *d_value = d_key + (v.key(0) - v.query(0));
      for (int i = 0; i < v.count; ++i, shares += padded(v.count, kPad)) {
        const float* d = d_out + i * layer.out.stride;
        v.products(d, v.value(0), 1, by_share);
        float mean = 0;
        for (int j = 0; j < v.count; ++j) mean += shares[j] * by_share[j];
        for (int j = 0; j < v.count; ++j) {
          by_share[j] = shares[j] * (by_share[j] - mean) * v.scale;
          v.add(shares[j], d, d_value + j * v.row);
          v.add(by_share[j], v.query(i), d_key + j * v.row);
        }
        v.mix(by_share, v.key(0), v.row, d_query + i * v.row);
      }
    });
  }

 private:
  struct View {
    const float* first;  // query of the first token
    long row, side;      // from a token to the next, and from queries to keys
    int count, width;
    float scale;

    const float* query(int i) const { return first + i * row; }
    const float* key(int i) const { return first + side + i * row; }
    const float* value(int i) const { return first + 2 * side + i * row; }

    // out[j] = scale * (x . rows[j]), in whole vectors
    FLOTILLA_INLINE void products(const float* x, const float* rows, float by, float* out) const {
      for (int j = 0; j < count; j += kLanes) {
        V t[kLanes] = {};
        for (int k = 0; k < kLanes && j + k < count; ++k) {
          for (int c = 0; c < width; c += kLanes) {
            t[k] = fma(load(x + c), load(rows + (j + k) * row + c), t[k]);
          }
        }
        store(out + j, lane_sums(t) * by);
      }
    }

    // Numbers behind the last become 0.
    FLOTILLA_INLINE void softmax(float* x) const {
      float most = x[0];
      for (int j = 1; j < count; ++j) most = x[j] > most ? x[j] : most;
      float sum = 0;
      for (int j = 0; j < count; j += kLanes) {
        store(x + j, exp(load(x + j) - most));
        for (int k = 0; k < kLanes; ++k) {
          if (j + k >= count) x[j + k] = 0;
          sum += x[j + k];
        }
      }
      const float inverse = 1.0f / sum;
      for (int j = 0; j < count; j += kLanes) store(x + j, load(x + j) * inverse);
    }

    // out = the sum of factors[j] * rows[j]
    FLOTILLA_INLINE void mix(const float* factors, const float* rows, long step, float* out) const {
      for (int c = 0; c < width; c += kLanes) {
        V sum = V{};
        for (int j = 0; j < count; ++j) {
          sum = fma(splat(factors[j]), load(rows + j * step + c), sum);
        }
        store(out + c, sum);
      }
    }

    FLOTILLA_INLINE void add(float factor, const float* x, float* to) const {
      for (int c = 0; c < width; c += kLanes) {
        store(to + c, fma(splat(factor), load(x + c), load(to + c)));
      }
    }
  };

  // Calls body(view, its shares, where in the outputs it goes).
  template <class Body>
  static FLOTILLA_INLINE void each_head(const TokenRoom& room, const TokenLayer& layer, Body body) {
    const TokenPlace &in = layer.in, &out = layer.out;
    const int width = out.width / layer.heads;
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(width));
    float* shares = room.work + layer.kept;
    for (int o = 0; o < room.observations; ++o) {
      for (int h = 0; h < layer.heads; ++h, shares += out.count * padded(out.count, kPad)) {
        const float* query = room.at(in) + o * in.count * in.stride + h * width;
        body(View{query, in.stride, out.width, out.count, width, scale}, shares,
             o * out.count * out.stride + h * width);
      }
    }
  }
};

struct TokenMean {
  static void forward(const TokenRoom& room, const TokenLayer& layer, float* features, long row) {
    const TokenPlace& in = layer.in;
    const float share = 1.0f / static_cast<float>(in.count);
    for (int o = 0; o < room.observations; ++o) {
      const float* x = room.at(in) + o * in.count * in.stride;
      for (int c = 0; c < in.width; c += kLanes) {
        V sum = load(x + c);
        for (int i = 1; i < in.count; ++i) sum = sum + load(x + i * in.stride + c);
        store(features + o * row + c, sum * share);
      }
    }
  }

  static void backward(const TokenRoom& room, const TokenLayer& layer, const float* d_features,
                       long row) {
    const TokenPlace& in = layer.in;
    const float share = 1.0f / static_cast<float>(in.count);
    for (int i = 0; i < room.rows(in); ++i) {
      const float* d = d_features + i / in.count * row;
      float* to = room.gradient(in) + i * in.stride;
      for (int c = 0; c < in.width; c += kLanes) store(to + c, load(d + c) * share);
    }
  }
};

// Features: [observations][row].
void attention_forward(const Plan& plan, const TokenRoom& room, float* features, long row) {
  for (int i = 0; i < plan.token_layer_count; ++i) {
    const TokenLayer& layer = plan.token_layers[i];
    switch (layer.kind) {
      case TokenLayer::Kind::kLinear:
        TokenLinear::forward(room, layer);
        break;
      case TokenLayer::Kind::kNorm:
        TokenNorm::forward(room, layer);
        break;
      case TokenLayer::Kind::kAttend:
        TokenAttend::forward(room, layer);
        break;
      case TokenLayer::Kind::kMean:
        TokenMean::forward(room, layer, features, row);
        break;
    }
  }
}

void attention_backward(const Plan& plan, const TokenRoom& room, const float* d_features, long row,
                        float* gradient) {
  for (int i = plan.token_layer_count - 1; i >= 0; --i) {
    const TokenLayer& layer = plan.token_layers[i];
    switch (layer.kind) {
      case TokenLayer::Kind::kLinear:
        TokenLinear::backward(room, layer, gradient);
        break;
      case TokenLayer::Kind::kNorm:
        TokenNorm::backward(room, layer, gradient);
        break;
      case TokenLayer::Kind::kAttend:
        TokenAttend::backward(room, layer);
        break;
      case TokenLayer::Kind::kMean:
        TokenMean::backward(room, layer, d_features, row);
        break;
    }
  }
}
