// Gradients of hidden layers and heads from all rows of a minibatch at once. Added up tile by tile,
// those of large matrices go through memory once per tile, and a gradient for every shard takes
// most of the time to add up. Here a tile that goes back leaves what the gradient is made of, and a
// piece of the gradient is taken from all rows by one thread. Sums add rows in their order, so that
// they do not depend on where tiles are cut; those of bfloat16 depend on where calls begin.
// Part of kernel_body.h.
#pragma once

void leave_outputs(const Tile& tile, const Branch& branch, const DenseRows& to) {
  const Plan& plan = tile.plan;
  for (int i = branch.first_head; i < branch.first_head + branch.heads; ++i) {
    const Head& head = plan.heads[i];
    const float* dout = tile.dout(i);
    float* at = rows_at(to, plan.dense_dout, plan.dense_outputs) + head.first_output;
    for (int r = 0; r < tile.rows; ++r, at += plan.dense_outputs) {
      for (int o = 0; o < head.out; ++o) at[o] = dout[o * kTile + r];
    }
    for (int r = tile.rows; r < to.count; ++r, at += plan.dense_outputs) clear(at, head.out);
  }
}

template <class Layers, bool kRelu>
void branch_leave(const Tile& tile, const Branch& branch, const DenseRows& to) {
  const Plan& plan = tile.plan;
  leave_outputs(tile, branch, to);
  if (branch.layers == 0) return;
  float* d = tile.work + plan.work_d0;
  float* d_below = tile.work + plan.work_d1;
  leave_rows(to, plan.heads[branch.first_head].dense_in, tile.input(branch, branch.layers),
             tile.input_row(branch, branch.layers), tile.rows);
  heads_backward<kRelu>(tile, branch, d);
  for (int l = branch.layers - 1; l >= 0; --l) {
    const Layer& layer = plan.layers[branch.first_layer + l];
    Layers::leave_gradient(tile.net, to, layer, d, tile.rows, tile.work);
    if (l == 0) break;
    Layers::leave_input(to, layer, tile.input(branch, l), layer.in, tile.rows);
    Layers::template backward<kRelu>(tile.net, layer, d, tile.padded_rows, tile.input(branch, l),
                                     d_below, tile.work);
    float* swap = d;
    d = d_below;
    d_below = swap;
  }
  if (!plan.has_torso()) return;
  Layers::add_input_gradient(tile.net, plan.layers[branch.first_layer], d, tile.padded_rows,
                             tile.work + plan.work_dx, plan.input_stride, tile.work);
}

// Of a matrix the rows of a piece, and with the first of them the bias.
template <class Layers>
void collect_layer(const Plan& plan, const LearnCall& call, const Branch& branch, int number,
                   int piece) {
  const Layer& layer = plan.layers[branch.first_layer + number];
  const int first = piece * layer.piece_rows;
  const int rows = layer.in - first < layer.piece_rows ? layer.in - first : layer.piece_rows;
  Layers::collect(call.dense, layer, number == 0 ? plan.input_stride : layer.in, first, rows,
                  call.gradient + layer.weight + static_cast<long>(first) * layer.out, call.begins);
  if (piece > 0) return;
  if (call.begins) clear(call.gradient + layer.bias, layer.out);
  add_column_sums(rows_at(call.dense, layer.dense_d, layer.out), call.dense.count, layer.out,
                  call.gradient + layer.bias);
}

void collect_head(const Plan& plan, const LearnCall& call, const Branch& branch, int number) {
  const Head& head = plan.heads[number];
  const long width = branch.layers == 0 ? plan.input_stride : head.in;
  const float* dout = rows_at(call.dense, plan.dense_dout, plan.dense_outputs) + head.first_output;
  add_product(head.out, head.in, call.dense.count, Left{dout, 1, plan.dense_outputs},
              {rows_at(call.dense, head.dense_in, width), width}, call.gradient + head.weight,
              call.begins);
  float* bias = call.gradient + head.bias;
  if (call.begins) clear(bias, head.out);
  for (int r = 0; r < call.dense.count; ++r, dout += plan.dense_outputs) {
    for (int o = 0; o < head.out; ++o) bias[o] += dout[o];
  }
}

bool is_trained(const Branch& branch, const LearnCall& call) {
  return branch.first_head == 0 ? call.actor : call.critic;
}

// Pieces are counted as Plan::dense_pieces() does, branch by branch.
template <class Layers>
void collect_piece(const Plan& plan, const LearnCall& call, int piece) {
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    const bool trained = is_trained(branch, call);
    for (int l = 0; l < branch.layers; ++l) {
      const int pieces = plan.layers[branch.first_layer + l].pieces();
      if (piece < pieces && trained) return collect_layer<Layers>(plan, call, branch, l, piece);
      if (piece < pieces) return;
      piece -= pieces;
    }
    if (piece < branch.heads && trained) {
      return collect_head(plan, call, branch, branch.first_head + piece);
    }
    if (piece < branch.heads) return;
    piece -= branch.heads;
  }
}

template <class Layers>
void collect(const Network& network, const LearnCall& call, int piece) {
  Layers::begin();
  collect_piece<Layers>(*network.plan, call, piece);
  Layers::end();
}
