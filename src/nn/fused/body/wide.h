// Gradients of few rows of a wide network. With a gradient for every thread, most of the time would
// go into adding those up. Here a tile that goes back leaves the gradients of its layers' outputs,
// and the gradient of the parameters is taken from all tiles at once, a piece of it by one thread.
// Sums add rows in their order, so that they do not depend on where tiles are cut.
// Part of kernel_body.h.
#pragma once

template <class Layers, bool kRelu>
void branch_propagate(const Tile& tile, const Branch& branch) {
  if (branch.layers == 0) return;
  const Layer* layers = tile.plan.layers + branch.first_layer;
  heads_backward<kRelu>(tile, branch, tile.work + layers[branch.layers - 1].gradient);
  for (int l = branch.layers - 1; l > 0; --l) {
    Layers::template backward<kRelu>(tile.net, layers[l], tile.work + layers[l].gradient,
                                     tile.padded_rows, tile.input(branch, l),
                                     tile.work + layers[l - 1].gradient, tile.work);
  }
}

template <class Layers>
void propagate(const Network& network, const LearnCall& call, float* work) {
  const Plan& plan = *network.plan;
  Tile tile{plan, network, work};
  alignas(64) const float nothing[kTile] = {};
  TileLoss loss;
  see_tile<Layers>(tile, call, 0, loss);
  for (int first = 0; first < tile.rows; first += kLossRows) {
    const int rows = tile.rows - first < kLossRows ? tile.rows - first : kLossRows;
    call.loss(call.context, {rows, call.rows.sample + first, loss.logprob + first,
                             loss.entropy + first, (call.critic ? tile.out(1) : nothing) + first,
                             loss.d_logprob + first, loss.d_entropy + first, tile.dout(1) + first});
  }
  take_loss(tile, call, loss);
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    if (!is_trained(branch, call)) continue;
    if (plan.relu) {
      branch_propagate<Layers, true>(tile, branch);
    } else {
      branch_propagate<Layers, false>(tile, branch);
    }
  }
}

// Calls each(first row in its tile, rows) for every tile.
template <class Each>
FLOTILLA_INLINE void for_each_tile(const WideTiles& tiles, const float* first, Each each) {
  for (int row = 0; row < tiles.rows; row += tiles.some, first += tiles.next) {
    each(first, tiles.rows - row < tiles.some ? tiles.rows - row : tiles.some);
  }
}

LeftPieces pieces_of(const WideTiles& tiles, const float* first, long row, long input) {
  return {first, row, input, tiles.some, static_cast<long>(tiles.next)};
}

// Of a matrix the rows from kPieceRows * piece on, and with the first of them the bias.
void collect_layer(const Tile& tile, const WideTiles& tiles, const Branch& branch, int number,
                   int piece, float* gradient) {
  const Layer& layer = tile.plan.layers[branch.first_layer + number];
  const int first = piece * kPieceRows;
  const int rows = layer.in - first < kPieceRows ? layer.in - first : kPieceRows;
  const float* x = tile.input(branch, number) + first;
  const float* d = tile.work + layer.gradient;
  product<kPad>(rows, layer.out, tiles.rows, pieces_of(tiles, x, 1, tile.input_row(branch, number)),
                {d, layer.out}, FromZero(),
                into(gradient + layer.weight + static_cast<long>(first) * layer.out, layer.out));
  if (piece > 0) return;
  float* bias = gradient + layer.bias;
  clear(bias, layer.out);
  for_each_tile(tiles, d, [&](const float* from, int count) {
    add_column_sums(from, count, layer.out, bias);
  });
}

void collect_head(const Tile& tile, const WideTiles& tiles, const Branch& branch, int number,
                  float* gradient) {
  const Head& head = tile.plan.heads[number];
  const float* dout = tile.dout(number);
  product<kPad>(head.out, head.in, tiles.rows, pieces_of(tiles, dout, kTile, 1),
                {tile.input(branch, branch.layers), tile.input_row(branch, branch.layers)},
                FromZero(), into(gradient + head.weight, head.in));
  for (int o = 0; o < head.out; ++o) {
    float sum = 0;
    for_each_tile(tiles, dout + o * kTile, [&](const float* from, int count) {
      for (int r = 0; r < count; ++r) sum += from[r];
    });
    gradient[head.bias + static_cast<size_t>(o)] = sum;
  }
}

// Pieces are counted as Plan::gradient_pieces() does, branch by branch.
void collect(const Network& network, const LearnCall& call, const WideTiles& tiles, int piece) {
  const Plan& plan = *network.plan;
  const Tile tile{plan, network, const_cast<float*>(tiles.work)};
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    const bool trained = is_trained(branch, call);
    for (int l = 0; l < branch.layers; ++l) {
      const int pieces = plan.layers[branch.first_layer + l].pieces();
      if (piece < pieces && trained) {
        return collect_layer(tile, tiles, branch, l, piece, call.gradient);
      }
      if (piece < pieces) return;
      piece -= pieces;
    }
    if (piece < branch.heads && trained) {
      return collect_head(tile, tiles, branch, branch.first_head + piece, call.gradient);
    }
    if (piece < branch.heads) return;
    piece -= branch.heads;
  }
}
